//! Names that are found, and those that are not, with their lines.

use super::*;

/// Three files with tests: of the attacks, of the lab, of a crate.
fn files() -> Vec<TestFile> {
    let file = |path: &str, text: &str| TestFile { path: path.into(), tests: tests_of(text) };
    vec![
        file("tests/tests/attacks/files/links.rs", "#[test]\nfn a_link_shows_nothing() {}\nfn helper() {}\n"),
        file(
            "lab/tests/attacks/tokens.rs",
            "#[tokio::test(flavor = \"multi_thread\")]\n#[expect(x)]\nasync fn opens_nothing() {}\n#[test]\n#[ignore]\nfn never_runs() {}\n",
        ),
        file("crates/provider/src/kubernetes/usage/tests.rs", "/// A test.\n#[test]\nfn only_what_is_named() {}\n"),
    ]
}

#[test]
fn tests_that_exist_are_no_breach() {
    let text = "Named as `file::test`, with `docker.sock`.\n| `files::a_link_shows_nothing`, lab `tokens::opens_nothing`, lab `opens_nothing` |\n\
                provider\n`only_what_is_named`, `links::a_link_shows_nothing`, no `helper`";
    assert_eq!(missing(text, &files()), Vec::<String>::new());
}

#[test]
fn each_name_without_a_test_is_a_breach_with_its_line() {
    let text = "`files::a_link_shows`\n`files::helper` and\n\nlab `usage`, provider `usage`\n`tokens::opens_nothing`\nlab `never_runs`";
    let breaches = missing(text, &files());
    let places: Vec<&str> = breaches.iter().filter_map(|breach| breach.split(": ").next()).collect();
    assert_eq!(
        places,
        ["SECURITY.md:1", "SECURITY.md:2", "SECURITY.md:4", "SECURITY.md:4", "SECURITY.md:5", "SECURITY.md:6"]
    );
}
