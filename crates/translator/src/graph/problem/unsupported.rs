//! Problems of policies whose fields are not built.

use std::sync::Arc;

use api::{Kind, ObjectKey, Problem, RefusalKind, Severity};
use engine::{Graph, Table};

use super::{numbered, target_problems, warning};
use crate::closing::{Attached, listed};
use crate::graph::status::Sources;
use crate::key::ProblemKey;
use crate::status::policy::{Reached, Standing};
use crate::status::unsupported;

/// The number of the first of these problems: policies that are built in part have others.
const NUMBER: u32 = 1 << 16;

/// The problems of each policy with a target of this controller.
pub(super) fn problems(
    g: &mut Graph,
    sources: &Sources,
    reached: Table<ObjectKey, Arc<Vec<Reached>>>,
) -> Table<ProblemKey, Arc<Problem>> {
    let (policies, settings) = (sources.closings.policies, sources.base.settings);
    let file_mode = sources.base.options.file_mode;
    g.derive("unsupported_policy_problem", reached, move |cx, key, reached: &Arc<Vec<Reached>>| {
        let Some(policy) = cx.get(policies, key).cloned() else { return Vec::new() };
        let mut all = reached.iter();
        // Other controllers report it for policies of their Gateways and routes.
        let concerns = match reached.is_empty() {
            true => file_mode,
            false => all.any(|one| !one.ancestors.is_empty() || file_mode && one.standing != Standing::Foreign),
        };
        if !concerns {
            return Vec::new();
        }
        let is_open = !settings.closes_unsupported(cx);
        numbered(key, NUMBER, found(key, &policy, reached, is_open))
    })
}

/// All that a policy closes, in words.
fn closed(policy: &Attached) -> String {
    let named = policy.targets.iter().filter_map(|target| Reached::known(target).ok().map(unsupported::place));
    let all: Vec<String> = named.chain(policy.wide_words.iter().map(|words| words.to_string())).collect();
    listed(all.into_iter())
}

fn found(key: &ObjectKey, policy: &Attached, reached: &[Reached], is_open: bool) -> Vec<Arc<Problem>> {
    let severity = if is_open { Severity::Warning } else { Severity::Error };
    let follows = match is_open {
        true => "requests pass without it, as such policies are allowed",
        false if policy.is_adrift() => "it names nothing that it could be for, so nothing is closed",
        false => {
            "what the policy is for answers 500; take the policy away, or allow such policies (--unsupported-policies=allow)"
        }
    };
    let refusal = (!is_open && !policy.is_adrift()).then_some(RefusalKind::Policy);
    let problem = |path: &str, text: String| Arc::new(Problem::of(key, path, severity, text).refusing(refusal));
    let mut all = Vec::new();
    if let Some(lack) = &policy.lack {
        let guards = lack.guards.iter();
        all.extend(
            guards.map(|field| problem(field, format!("this guards and is not supported by this version: {follows}"))),
        );
        let follows = match is_open || policy.is_adrift() {
            true => format!(": {follows}"),
            false => format!(
                ", so this is closed (requests get 500, connections are closed) until it is repaired or removed, or such policies are allowed \
                 (--unsupported-policies=allow): {}",
                closed(policy)
            ),
        };
        let text = || problem("", format!("the policy cannot be used as it is written{follows}"));
        let fault = (lack.fault.is_some() || policy.is_uncertain()).then(text);
        all.extend(fault);
    }
    if policy.is_adrift() {
        let text = "the policy names nothing that can be read, so nothing is closed that it may be for".to_owned();
        all.push(Arc::new(Problem::of(key, "spec.targetRefs", Severity::Error, text)));
    }
    for (at, selector) in policy.selectors.iter().enumerate() {
        if let Err(words) = selector {
            let path = format!("spec.targetSelectors[{at}]");
            all.push(Arc::new(Problem::of(key, path, Severity::Error, &**words)));
        }
    }
    if key.kind().is_some_and(Kind::is_unbuilt_policy) {
        all.extend(target_problems(key, reached, policy.single));
        if policy.lack.is_none() && policy.ignored.is_empty() {
            let text = format!("no field of a {} is supported by this version, and this one has none", key.kind_name());
            all.push(warning(key, "", &text));
        }
    } else if !policy.selectors.is_empty() {
        let text = "what is selected is closed where a field guards that is not supported; nothing else of the policy counts there";
        all.push(warning(key, "spec.targetSelectors", text));
    }
    all
}
