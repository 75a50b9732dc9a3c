//! Secrets whose content the proxies of a fleet refused.

use std::sync::Arc;

use api::{ObjectKey, Problem, Severity};
use engine::{Cx, Graph, Index, Table};
use ir::FleetName;
use store::{FactKey, SecretRefusal, Tables};

use crate::backend::SecretUse;
use crate::key::ProblemKey;
use crate::secret;

/// Refusals of secrets, by fleet.
#[derive(Clone, Copy)]
pub(crate) struct RefusedSecrets {
    refusals: Table<FactKey, SecretRefusal>,
    /// Those without accepted content before: nothing that needs them can be served.
    lacking: Index<Arc<str>, FactKey, SecretRefusal>,
    /// The same by the secret's name.
    lacking_by_name: Index<Arc<str>, FactKey, SecretRefusal>,
}

impl RefusedSecrets {
    pub(super) fn declare(g: &mut Graph, inputs: Tables) -> Self {
        let refusals = inputs.secret_refusals;
        let lacking = g.index("lacking_secret", refusals, |key: &FactKey, refusal: &SecretRefusal| {
            (!refusal.has_previous).then(|| Arc::clone(&key.fleet))
        });
        let lacking_by_name = g.index("lacking_secret_by_name", refusals, |key: &FactKey, refusal: &SecretRefusal| {
            (!refusal.has_previous).then(|| Arc::clone(&key.name))
        });
        Self { refusals, lacking, lacking_by_name }
    }

    /// Returns true if a fleet lacks any secret. One question for everything of a fleet: nearly always there is none.
    pub(crate) fn any(&self, cx: &mut Cx<'_>, fleet: &FleetName) -> bool {
        cx.any(self.lacking, &fleet.0)
    }

    /// Returns the first of some secrets that a fleet's proxies lack, as they refuse its content and have no other.
    pub(crate) fn find<'s>(
        &self,
        cx: &mut Cx<'_>,
        fleet: &FleetName,
        secrets: &'s [SecretUse],
    ) -> Option<&'s SecretUse> {
        if secrets.is_empty() || !self.any(cx, fleet) {
            return None;
        }
        secrets.iter().find(|wanted| {
            let fact = FactKey { fleet: fleet.0.clone(), name: secret::name(wanted).0 };
            cx.get(self.refusals, &fact).is_some_and(|refusal| !refusal.has_previous)
        })
    }

    /// Returns the words for the author of what names some secrets, where the proxies of any fleet lack one.
    pub(super) fn words(&self, cx: &mut Cx<'_>, secrets: &[SecretUse]) -> Option<Arc<str>> {
        let lacking = secrets.iter().find(|wanted| cx.any(self.lacking_by_name, &secret::name(wanted).0))?;
        Some(secret::refused_by_proxies(lacking))
    }
}

/// Problems at the Secrets and bundles that proxies refuse.
pub(super) fn problems(g: &mut Graph, inputs: Tables) -> Table<ProblemKey, Arc<Problem>> {
    g.derive("secret_refusal_problem", inputs.secret_refusals, |_, fact: &FactKey, refusal| {
        refused_secret(fact, refusal)
    })
}

/// Says at a Secret or a bundle that the proxies of a fleet refuse it. Their words can hold the secret, so they are not repeated.
fn refused_secret(fact: &FactKey, refusal: &SecretRefusal) -> Vec<(ProblemKey, Arc<Problem>)> {
    let follows = if refusal.has_previous {
        "they go on with the one before"
    } else {
        "what needs it is not served, and requests to such backends get 500"
    };
    let text =
        format!("the proxies of {} refuse its content: {follows}; replace the certificate or the key", fact.fleet);
    let problem = |object: ObjectKey| {
        let key = ProblemKey::hashed(&object, &[&fact.fleet, &fact.name]);
        (key, Arc::new(Problem::of(&object, "", Severity::Error, text.clone())))
    };
    objects(&fact.name).into_iter().map(problem).collect()
}

/// The objects of a secret, by the name under which proxies have it.
fn objects(name: &str) -> Vec<ObjectKey> {
    name.split('+').filter_map(secret::object).collect()
}
