//! A proxy that refuses some of what is offered, until it gets what it takes.

use api::Kind;
use ir::raw::RawPart;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// An object's number and the form that it has.
type Form = (usize, u32);

fn offer((number, form): Form) -> (ObjectKey, Arc<RawResource>) {
    let id = ir::RawName { message: "envoy.config.route.v3.RouteConfiguration", name: "r".into() };
    let part = RawPart { claims: Vec::new(), bytes: Arc::from(format!("{number}={form}").into_bytes()) };
    let resource = RawResource {
        id,
        bytes: Arc::from([]),
        names: Vec::new(),
        parts: vec![part],
        says_more: false,
        tail: None,
        endpoints: None,
        slow: false,
        uses: Vec::new(),
        addresses: Vec::new(),
        sockets: Vec::new(),
        bound: Vec::new(),
    };
    (ObjectKey::of(Kind::BootesRoute, "shop", &format!("{number:03}")), Arc::new(resource))
}

fn form((object, resource): &(ObjectKey, Arc<RawResource>)) -> Form {
    let text = String::from_utf8_lossy(&resource.parts[0].bytes).into_owned();
    let form = text.rsplit('=').next().unwrap().parse().unwrap();
    (object.name().parse().unwrap(), form)
}

/// What proxies say, and what they have.
#[derive(Default)]
struct Proxy {
    refusals: Refusals,
    accepted: MadeOf,
    /// What it had when the process began that asks.
    before: Option<Vec<u8>>,
    /// It may never have less than what is offered and was not edited.
    is_lossless: bool,
    /// Nobody tells what it accepts.
    is_silent: bool,
}

impl Proxy {
    /// Offers forms of which some are bad until nothing changes any more: what it has then, who is refused and how often it was asked. What it has
    /// may only become more.
    fn settle(&mut self, forms: &[Form], is_bad: impl Fn(Form) -> bool) -> (Vec<Form>, Vec<usize>, usize) {
        let offers: Vec<_> = forms.iter().copied().map(offer).collect();
        let offered = forms.to_vec();
        for asked in 1..=4_000 {
            let offers: Vec<_> = offers.iter().map(|(object, resource)| (object, resource)).collect();
            let known = Known {
                refusals: Some(&self.refusals),
                accepted: &self.accepted,
                before: self.before.as_deref(),
                is_silent: self.is_silent,
            };
            let (chosen, verdict) = choose(offers, known);
            let chosen: MadeOf = chosen.into_iter().map(|(object, it)| (object.clone(), Arc::clone(it))).collect();
            let mark = mark(chosen.iter().map(|(object, resource)| (object, resource)));
            let forms: Vec<Form> = chosen.iter().map(form).collect();
            let answered = self.refusals.words.contains_key(&mark) || self.refusals.accepted.contains(&mark);
            if forms.iter().copied().any(&is_bad) {
                assert!(!answered || verdict.refused.len() == forms.len(), "asked twice");
                if answered {
                    return (forms, refused(&verdict), asked);
                }
                self.refusals.words.insert(mark, "no".into());
                continue;
            }
            let kept = |form: &Form| form.1 == 1 || forms.contains(form);
            assert!(!self.is_lossless || offered.iter().all(kept), "{forms:?} lack what it had");
            let is_new = self.accepted != chosen;
            self.refusals.accepted.insert(mark);
            if !is_new || self.is_silent {
                assert!(verdict.waiting.is_empty(), "{verdict:?}");
                return (forms, refused(&verdict), asked);
            }
            self.accepted = chosen;
        }
        panic!("it never ends");
    }
}

fn refused(verdict: &Verdict) -> Vec<usize> {
    verdict.refused.keys().map(|object| object.name().parse().unwrap()).collect()
}

#[test]
fn one_bad_object_of_many_is_left_out_and_its_form_before_stays() {
    let mut proxy = Proxy::default();
    let first: Vec<Form> = (0..10).map(|number| (number, 0)).collect();
    assert_eq!(proxy.settle(&first, |_| false).0, first);
    let edited: Vec<Form> = (0..10).map(|number| (number, u32::from(number == 3 || number == 5))).collect();
    let (has, refused, _) = proxy.settle(&edited, |form| form == (3, 1));
    assert_eq!(refused, [3]);
    assert_eq!(has[3], (3, 0));
    assert_eq!(has[5], (5, 1));
}

#[test]
fn nothing_is_taken_away_to_find_the_one_that_is_to_blame() {
    let mut proxy = Proxy::default();
    let forms: Vec<Form> = (0..10).map(|number| (number, 0)).collect();
    // Nothing is known of what the proxy has.
    let (has, refused, asked) = proxy.settle(&forms, |(number, _)| number == 7);
    assert_eq!((has.len(), refused), (9, vec![7]));
    assert_eq!(asked, 5, "all, without 9, without 8, without 7, and once more to see that this is all");
}

#[test]
fn nothing_is_taken_away_to_find_several_that_are_to_blame_either() {
    // 1 stands for what the proxy may have and must not lose: all but the guilty.
    let guilty_of = |count: usize, guilty: &[usize]| {
        let forms: Vec<Form> = (0..count).map(|number| (number, u32::from(guilty.contains(&number)))).collect();
        let mut proxy = Proxy { is_lossless: true, ..Proxy::default() };
        let (has, refused, asked) = proxy.settle(&forms, |(_, form)| form == 1);
        assert_eq!((has.len(), &refused[..]), (count - guilty.len(), guilty));
        asked
    };
    assert!(guilty_of(32, &[0, 1]) <= SETS_IN_TURN + 2);
    guilty_of(32, &[7, 20]);
    guilty_of(9, &[0, 1, 4, 5, 8]);
    guilty_of(2, &[0]);
}

#[test]
fn what_an_earlier_process_gave_is_not_taken_away_to_find_several_that_are_to_blame() {
    let forms: Vec<Form> = (0..10).map(|number| (number, u32::from([2, 5, 6].contains(&number)))).collect();
    let had = (0..10).flat_map(|number| offer((number, 0)).1.parts[0].bytes.to_vec());
    let mut proxy = Proxy { before: Some(had.collect()), is_lossless: true, ..Proxy::default() };
    let (has, refused, _) = proxy.settle(&forms, |(number, form)| form == 1 && number != 5);
    assert_eq!(refused, [2, 6]);
    assert_eq!(has.len(), 8);
}

proptest! {
    #[test]
    fn in_the_end_it_has_all_but_what_it_refuses(
        count in 2_usize..45,
        guilty in proptest::collection::vec(any::<Index>(), 0..8),
        edited in proptest::collection::vec(any::<Index>(), 0..20),
        knows in any::<bool>(),
        is_silent in any::<bool>(),
    ) {
        let mut proxy = Proxy { is_silent, ..Proxy::default() };
        let mut forms: Vec<Form> = (0..count).map(|number| (number, 0)).collect();
        let knows = knows && !is_silent;
        if knows {
            proxy.settle(&forms, |_| false);
        }
        let before = proxy.accepted.clone();
        edited.iter().for_each(|index| forms[index.index(count)].1 = 1);
        let guilty: BTreeSet<usize> = guilty.iter().map(|index| index.index(count)).filter(|at| forms[*at].1 == 1 || !knows).collect();
        let bad = |(number, form): Form| guilty.contains(&number) && form == forms[number].1;
        let (has, refused, _) = proxy.settle(&forms, bad);
        if is_silent && (guilty.len() > 1 || (!guilty.is_empty() && count > IN_TURN)) {
            prop_assert_eq!(refused.len(), count);
            return Ok(());
        }
        prop_assert_eq!(refused, guilty.iter().copied().collect::<Vec<_>>());
        if guilty.len() < count || !before.is_empty() {
            let stays = |form: &Form| match bad(*form) {
                false => Some(*form),
                true => before.iter().map(self::form).find(|(number, _)| *number == form.0),
            };
            prop_assert_eq!(has, forms.iter().filter_map(stays).collect::<Vec<_>>());
        }
    }
}
