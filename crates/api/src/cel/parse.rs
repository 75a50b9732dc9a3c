//! CEL tokens into expressions.

use super::call::Function;
use super::lex::{Token, tokens};
use super::{CelError, Expr, Macro, Operator};
use crate::schema::Pattern;

/// Expressions may be nested so deep; the deepest of Gateway API has 40 levels.
const MAX_DEPTH: u32 = 200;

/// Operators by how tightly they bind, loosest first; those of one level group to the left.
const LEVELS: &[&[(&str, Operator)]] = &[
    &[("||", Operator::Or)],
    &[("&&", Operator::And)],
    &[
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessEqual),
        (">=", Operator::GreaterEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
        ("in", Operator::In),
    ],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply)],
];

/// Words that cannot be field names; Kubernetes writes such fields as `__word__`.
const MACROS: &[(&str, Macro)] = &[
    ("all", Macro::All),
    ("exists", Macro::Exists),
    ("exists_one", Macro::ExistsOne),
    ("filter", Macro::Filter),
    ("map", Macro::Map),
];

pub(super) fn parse(text: &str) -> Result<Expr, CelError> {
    let mut parser = Parser { tokens: tokens(text)?.into_iter().peekable(), names: vec!["self".to_owned()], depth: 0 };
    let expr = parser.expression()?;
    match parser.tokens.next() {
        None => Ok(expr),
        Some(token) => Err(unexpected(Some(&token))),
    }
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    /// Names of the variables in sight, by number.
    names: Vec<String>,
    depth: u32,
}

impl Parser {
    /// `a ? b : c`, or what binds tighter.
    fn expression(&mut self) -> Result<Expr, CelError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(CelError("the rule is nested too deep".to_owned()));
        }
        let condition = self.binary(0)?;
        let whole = if self.takes("?") {
            let then = self.binary(0)?;
            self.wants(":")?;
            Expr::If(Box::new([condition, then, self.expression()?]))
        } else {
            condition
        };
        self.depth -= 1;
        Ok(whole)
    }

    fn binary(&mut self, level: usize) -> Result<Expr, CelError> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = self.operator(operators) {
            left = Expr::Binary(operator, Box::new([left, self.binary(level + 1)?]));
        }
        Ok(left)
    }

    fn operator(&mut self, operators: &[(&str, Operator)]) -> Option<Operator> {
        let word = match self.tokens.peek()? {
            Token::Mark(mark) => mark,
            Token::Name(name) => name.as_str(),
            _ => return None,
        };
        let (_, operator) = operators.iter().find(|(text, _)| *text == word)?;
        self.tokens.next();
        Some(*operator)
    }

    fn unary(&mut self) -> Result<Expr, CelError> {
        if self.takes("!") {
            return Ok(Expr::Not(Box::new(self.unary()?)));
        }
        if self.takes("-") {
            return Ok(Expr::Negate(Box::new(self.unary()?)));
        }
        let mut expr = self.primary()?;
        loop {
            if self.takes(".") {
                let name = self.name()?;
                expr = if self.takes("(") {
                    self.method(expr, &name)?
                } else {
                    Expr::Field(Box::new(expr), unescaped(&name))
                };
            } else if self.takes("[") {
                expr = Expr::Index(Box::new([expr, self.expression()?]));
                self.wants("]")?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr, CelError> {
        match self.tokens.next() {
            Some(Token::Int(value)) => Ok(Expr::Int(value)),
            Some(Token::String(text)) => Ok(Expr::String(text.into())),
            Some(Token::Mark("(")) => {
                let inner = self.expression()?;
                self.wants(")")?;
                Ok(inner)
            }
            Some(Token::Mark("[")) => Ok(Expr::List(self.until("]")?.into())),
            Some(Token::Name(name)) => self.named(&name),
            other => Err(unexpected(other.as_ref())),
        }
    }

    /// A word: a constant, a variable, or a function of its own.
    fn named(&mut self, name: &str) -> Result<Expr, CelError> {
        match name {
            "true" => return Ok(Expr::Bool(true)),
            "false" => return Ok(Expr::Bool(false)),
            "null" => return Ok(Expr::Null),
            _ => {}
        }
        if let Some(number) = self.names.iter().rposition(|known| known == name) {
            return Ok(Expr::Var(number));
        }
        if name == "format" && self.takes(".") {
            let format = self.name()?;
            self.wants("(")?;
            self.wants(")")?;
            return Function::format(&format).map(|function| Expr::Call(function, Box::default()));
        }
        if !self.takes("(") {
            return Err(CelError(format!("{name} is not known")));
        }
        let mut arguments = self.until(")")?;
        match (name, arguments.pop(), arguments.is_empty()) {
            ("has", Some(Expr::Field(of, field)), true) => Ok(Expr::Has(of, field)),
            (_, Some(last), _) => {
                arguments.push(last);
                Ok(Expr::Call(Function::find(name, arguments.len())?, arguments.into()))
            }
            (_, None, _) => Err(CelError(format!("{name} takes arguments"))),
        }
    }

    /// `of.name(...)`; the bracket is already read.
    fn method(&mut self, of: Expr, name: &str) -> Result<Expr, CelError> {
        if let Some((_, which)) = MACROS.iter().find(|(text, _)| *text == name) {
            let variable = self.name()?;
            self.wants(",")?;
            self.names.push(variable);
            let body = self.expression()?;
            self.names.pop();
            self.wants(")")?;
            return Ok(Expr::Macro(*which, Box::new([of, body])));
        }
        let mut arguments = vec![of];
        arguments.extend(self.until(")")?);
        if name == "matches" {
            return match <[Expr; 2]>::try_from(arguments) {
                Ok([text, Expr::String(pattern)]) => {
                    Ok(Expr::Matches(Box::new(text), Box::new(Pattern::new(&pattern))))
                }
                _ => Err(CelError("matches takes one literal pattern".to_owned())),
            };
        }
        Ok(Expr::Call(Function::find(name, arguments.len())?, arguments.into()))
    }

    /// Expressions between commas, up to and with a closing bracket.
    fn until(&mut self, close: &'static str) -> Result<Vec<Expr>, CelError> {
        let mut out = Vec::new();
        if self.takes(close) {
            return Ok(out);
        }
        loop {
            out.push(self.expression()?);
            if self.takes(close) {
                return Ok(out);
            }
            self.wants(",")?;
        }
    }

    fn name(&mut self) -> Result<String, CelError> {
        match self.tokens.next() {
            Some(Token::Name(name)) => Ok(name),
            other => Err(unexpected(other.as_ref())),
        }
    }

    fn takes(&mut self, mark: &'static str) -> bool {
        self.tokens.next_if(|token| *token == Token::Mark(mark)).is_some()
    }

    fn wants(&mut self, mark: &'static str) -> Result<(), CelError> {
        if self.takes(mark) { Ok(()) } else { Err(unexpected(self.tokens.peek())) }
    }
}

/// `__namespace__` is how Kubernetes writes a field whose name is a reserved word.
fn unescaped(name: &str) -> Box<str> {
    let inner = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__")).filter(|inner| !inner.is_empty());
    inner.unwrap_or(name).into()
}

fn unexpected(token: Option<&Token>) -> CelError {
    match token {
        Some(token) => CelError(format!("{token:?} is not expected")),
        None => CelError("the rule ends too early".to_owned()),
    }
}
