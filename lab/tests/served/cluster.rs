//! A lab with Chancery, installed by the commands of the README.

use std::sync::Arc;

use tests::binary;

use crate::harness::{Lab, text};

/// The command that is the last of the installation.
const INSTALLED: &str = "rollout status deployment/chancery";

/// The namespace of Chancery.
pub(crate) const SYSTEM: &str = "chancery-system";

/// The commands of the README for a cluster: those that install Chancery, and those that try it.
pub(crate) fn commands() -> (Vec<String>, Vec<String>) {
    let readme = std::fs::read_to_string(binary::root().join("README.md")).unwrap();
    let (_, section) = readme.split_once("\n## A cluster\n").unwrap();
    let (_, block) = section.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let mut install: Vec<String> = block.lines().map(str::to_owned).collect();
    let last = install.iter().position(|line| line.contains(INSTALLED)).unwrap();
    let tries = install.split_off(last + 1);
    (install, tries)
}

/// Runs a command inside as a person does, in the project's folder.
pub(crate) fn run(lab: &Lab, command: &str) -> String {
    let output = lab.command("exec").args(["bash", "-euc", command]).current_dir(binary::root()).output().unwrap();
    assert!(output.status.success(), "{command}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The lab that tests share.
pub(crate) fn served() -> Arc<Lab> {
    Lab::shared_as(installed)
}

/// A lab of a test's own.
pub(crate) fn installed() -> Lab {
    installed_with("standard")
}

/// The same, with the definitions of a channel.
pub(crate) fn installed_with(channel: &str) -> Lab {
    let lab = Lab::with(&binary::chancery().unwrap());
    let (install, _) = commands();
    let (definitions, install) = install.split_first().unwrap();
    // there is no way out of the lab: it has the same definitions as a file
    assert!(definitions.contains(&format!("/{}/standard-install.yaml", version())), "{definitions}");
    lab.verb(&["definitions", "--channel", channel]);
    for command in install {
        run(&lab, command);
    }
    lab
}

/// The version of the definitions that the lab has.
fn version() -> String {
    let link = std::fs::read_link(binary::root().join(".tools/gateway-api/current")).unwrap();
    link.file_name().unwrap().to_str().unwrap().to_owned()
}
