//! What becomes of a request whose retry the budget of its cluster leaves no room for: 503 (Gateway API `RetryConstraint`), where Envoy would hand on what
//! the backend answered last.

use std::sync::LazyLock;

use proto::cel::expr::{Constant, Expr, ParsedExpr, constant::ConstantKind, expr};
use proto::envoy::extensions::filters::http::custom_response::v3::CustomResponse;
use proto::envoy::extensions::http::custom_response::local_response_policy::v3::LocalResponsePolicy;
use proto::google::protobuf::Any;
use proto::xds::core::v3::TypedExtensionConfig;
use proto::xds::r#type::matcher::v3::matcher::matcher_list::{FieldMatcher, Predicate, predicate};
use proto::xds::r#type::matcher::v3::matcher::{MatcherList, MatcherType, OnMatch, on_match};
use proto::xds::r#type::matcher::v3::{CelMatcher, HttpAttributesCelMatchInput, Matcher};
use proto::xds::r#type::v3::CelExpression;

/// The filter, off where no route or destination has it.
pub(crate) const FILTER: &str = "envoy.filters.http.custom_response";

/// What is answered.
const STATUS: i64 = 503;

/// Envoy's flag of a response for an overflow at the upstream (`UO`), which is also what a retry is that gets no room.
const OVERFLOW: i64 = 1 << 7;

/// The filter where nothing asks for it.
pub(crate) fn off() -> Any {
    Any::pack(&CustomResponse::default())
}

/// The filter where a budget holds.
pub(super) fn policy() -> Any {
    static POLICY: LazyLock<Any> = LazyLock::new(|| {
        let input = extension("attributes", Any::pack(&HttpAttributesCelMatchInput {}));
        let expression = ParsedExpr { expr: Some(is_over_budget()), ..ParsedExpr::default() };
        let matcher = CelMatcher {
            expr_match: Some(CelExpression { cel_expr_parsed: Some(expression), ..CelExpression::default() }),
            ..CelMatcher::default()
        };
        let single = predicate::SinglePredicate {
            input: Some(input),
            matcher: Some(predicate::single_predicate::Matcher::CustomMatch(extension("cel", Any::pack(&matcher)))),
        };
        let answer = LocalResponsePolicy { status_code: Some(503), ..LocalResponsePolicy::default() };
        let action = on_match::OnMatch::Action(extension("unavailable", Any::pack(&answer)));
        let matcher = FieldMatcher {
            predicate: Some(Predicate { match_type: Some(predicate::MatchType::SinglePredicate(single)) }),
            on_match: Some(OnMatch { on_match: Some(action), ..OnMatch::default() }),
        };
        let list = MatcherType::MatcherList(MatcherList { matchers: vec![matcher] });
        let custom_response_matcher = Some(Matcher { matcher_type: Some(list), ..Matcher::default() });
        Any::pack(&CustomResponse { custom_response_matcher })
    });
    POLICY.clone()
}

fn extension(name: &str, config: Any) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.to_owned(), typed_config: Some(config) }
}

/// `response.code != 503 && response.flags / 128 % 2 == 1`, parsed: Envoy reads no text here.
fn is_over_budget() -> Expr {
    let bit = call("_%_", [call("_/_", [of_response("flags"), number(OVERFLOW)]), number(2)]);
    let mut whole = call("_&&_", [call("_!=_", [of_response("code"), number(STATUS)]), call("_==_", [bit, number(1)])]);
    let mut last = 0;
    count(&mut whole, &mut last);
    whole
}

fn call<const N: usize>(function: &str, args: [Expr; N]) -> Expr {
    let call = expr::Call { function: function.to_owned(), args: args.into(), ..expr::Call::default() };
    Expr { expr_kind: Some(expr::ExprKind::CallExpr(Box::new(call))), ..Expr::default() }
}

fn of_response(field: &str) -> Expr {
    let response = expr::ExprKind::IdentExpr(expr::Ident { name: "response".to_owned() });
    let operand = Some(Box::new(Expr { expr_kind: Some(response), ..Expr::default() }));
    let select = expr::Select { operand, field: field.to_owned(), ..expr::Select::default() };
    Expr { expr_kind: Some(expr::ExprKind::SelectExpr(Box::new(select))), ..Expr::default() }
}

fn number(value: i64) -> Expr {
    let constant = Constant { constant_kind: Some(ConstantKind::Int64Value(value)) };
    Expr { expr_kind: Some(expr::ExprKind::ConstExpr(constant)), ..Expr::default() }
}

/// Gives each part a number of its own, as a parser does.
fn count(expression: &mut Expr, last: &mut i64) {
    *last += 1;
    expression.id = *last;
    match &mut expression.expr_kind {
        Some(expr::ExprKind::CallExpr(call)) => call.args.iter_mut().for_each(|arg| count(arg, last)),
        Some(expr::ExprKind::SelectExpr(select)) => {
            if let Some(operand) = &mut select.operand {
                count(operand, last);
            }
        }
        _ => {}
    }
}
