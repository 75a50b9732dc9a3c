//! `lab conformance`: the official suite of the Gateway API, as it is released, on what is installed in the lab.

mod stream;
mod table;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::definitions::{self, Channel, NEWEST, Release};
use crate::enter;
use crate::place::Place;
use stream::{Ended, How, News, Results};

/// What is asked for.
#[derive(clap::Args)]
pub(crate) struct Wanted {
    /// Profiles that are judged, with commas between them.
    #[arg(long, default_value = "GATEWAY-HTTP,GATEWAY-GRPC,GATEWAY-TLS,GATEWAY-TCP,GATEWAY-UDP", value_parser = words)]
    profile: String,
    /// Only these tests, with commas between them; then there is no report.
    #[arg(long, value_parser = words, value_name = "NAMES")]
    test: Option<String>,
    /// The class that is tested.
    #[arg(long, default_value = "chancery", value_name = "NAME")]
    class: String,
    #[command(flatten)]
    release: Release,
    /// Puts the report into `conformance/reports` if everything passed.
    #[arg(long, conflicts_with = "test")]
    publish: bool,
    /// Leaves the Gateways and services that all tests share, for the next run.
    #[arg(long)]
    keep: bool,
}

/// The test that holds all others.
const ROOT: &str = "TestConformance";

/// How long the class may take to be accepted.
const ACCEPTED: &str = "20s";

/// A whole run takes some three minutes on two idle cores; Go would end it after 10, which a busy machine may need.
const LONGEST: &str = "60m";

/// An address of the lab's pool that is given away last, and one that nobody has (RFC 5737).
const ADDRESSES: [&str; 2] = ["198.18.0.250", "192.0.2.1"];

/// What every report has to say of the place where it was made.
const DISCLOSURES: [&str; 3] = [
    "Pods are processes in namespaces, not containers; kubelet (simlet), scheduler and load balancer addresses are the lab's; there is no CNI and no NetworkPolicy.",
    "What the suite judges is real: etcd, kube-apiserver, kube-controller-manager, kube-proxy, Envoy, requests. The suite is unmodified.",
    "The stream of `go test -json` is the truth; the report file comes second.",
];

/// What it has to say of the servers that the suite asks for.
const SERVERS: &str = "One build of echo-basic (gateway-api-conformance-images v0.1.0) stands for the images v0.1.0 and v0.2.0; v0.2.0 of that module cannot be had, \
    and is replaced by v0.1.0 in the suite's modules.";

/// The same of versions before 1.7.
const EARLIER_SERVERS: &str = "echo-basic is built from the suite's own module, one for all its tags; CoreDNS is v1.12.2 with the four plugins that the suite's Corefile names.";

fn disclosures(release: &Release) -> impl Iterator<Item = &'static str> {
    let servers = if release.version == NEWEST { SERVERS } else { EARLIER_SERVERS };
    DISCLOSURES.into_iter().chain([servers])
}

/// The report with the disclosures before it, under the name that the API's own collection of reports asks for.
fn publish(place: &Place, release: &Release, report: &Path) -> anyhow::Result<()> {
    let folder = place.project("conformance/reports").join(&release.version);
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let file = folder.join(format!("{}-v{}-default-report.yaml", release.channel, env!("CARGO_PKG_VERSION")));
    let report = fs::read_to_string(report).with_context(|| format!("reading {}", report.display()))?;
    let comments: String = disclosures(release).map(|line| format!("# {line}\n")).collect();
    fs::write(&file, format!("{comments}{report}")).with_context(|| format!("writing {}", file.display()))?;
    println!("{}", file.display());
    Ok(())
}

/// Runs the suite; exit code 1 if anything failed.
pub(crate) fn run(place: &Place, wanted: &Wanted) -> anyhow::Result<ExitCode> {
    let suite = definitions::suite(place, &wanted.release)?;
    let output = place.project("target/conformance");
    fs::create_dir_all(&output).with_context(|| format!("making {}", output.display()))?;
    enter::all(place)?;
    definitions::apply(place, &wanted.release)?;
    until_accepted(place, &wanted.class)?;
    let [stream, report] = ["jsonl", "yaml"].map(|kind| output.join(format!("{}.{kind}", name(wanted))));
    let _earlier = fs::remove_file(&report);
    let mut command = enter::command(place, suite.join("test2json"));
    command.args(["-t", "-p", "conformance"]).arg(suite.join("conformance.test")).args(arguments(wanted, &report));
    let results = follow(command, &stream)?;
    print(wanted, &results, (&stream, &report));
    if wanted.publish && results.is_good() {
        publish(place, &wanted.release, &report)?;
    }
    Ok(if results.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the files of a run are called. One of some tests leaves those of a whole one alone.
fn name(wanted: &Wanted) -> String {
    let Release { version, channel } = &wanted.release;
    let version = if version == NEWEST { String::new() } else { format!(".{version}") };
    let channel = if *channel == Channel::Standard { "" } else { ".experimental" };
    let some = if wanted.test.is_some() { ".some" } else { "" };
    format!("{}{version}{channel}{some}", wanted.profile.replace(',', "+"))
}

/// The suite waits three minutes for what is there at once or never.
fn until_accepted(place: &Place, class: &str) -> anyhow::Result<()> {
    let wait = enter::command(place, "kubectl".into())
        .args(["wait", "--for=condition=Accepted", "--timeout", ACCEPTED, &format!("gatewayclass/{class}")])
        .output()?;
    let why = String::from_utf8_lossy(&wait.stderr);
    ensure!(wait.status.success(), "nobody accepts the GatewayClass {class}: {}", why.trim());
    Ok(())
}

/// The arguments of the suite's program. Features are not named, so that it takes those of the class.
fn arguments(wanted: &Wanted, report: &Path) -> Vec<String> {
    let [usable, unusable] = ADDRESSES;
    let tests = wanted.test.as_ref().map(|names| format!("/^({})$", names.replace(',', "|")));
    let mut arguments = vec![
        "-test.v=test2json".to_owned(),
        format!("-test.timeout={LONGEST}"),
        format!("-test.run=^{ROOT}${}", tests.as_deref().unwrap_or_default()),
        format!("--gateway-class={}", wanted.class),
        format!("--conformance-profiles={}", wanted.profile),
        format!("--usable-address={usable}"),
        format!("--unusable-address={unusable}"),
        format!("--cleanup-base-resources={}", !wanted.keep),
        "--organization=chancery".to_owned(),
        "--project=chancery".to_owned(),
        "--url=https://github.com/chancery/chancery".to_owned(),
        format!("--version=v{}", env!("CARGO_PKG_VERSION")),
        "--contact=https://github.com/chancery/chancery/issues".to_owned(),
    ];
    // A report of some tests would be taken for one of all.
    arguments.extend(wanted.test.is_none().then(|| format!("--report-output={}", report.display())));
    arguments
}

/// Runs the program, keeps its stream, and says of each test how it ended.
fn follow(mut command: Command, stream: &Path) -> anyhow::Result<Results> {
    let mut kept = File::create(stream).with_context(|| format!("making {}", stream.display()))?;
    let mut child = command.stdout(Stdio::piped()).spawn().context("starting the suite")?;
    let Some(lines) = child.stdout.take() else { bail!("the suite has no output") };
    let mut results = Results::new(ROOT);
    for line in BufReader::new(lines).lines() {
        let line = line.context("reading from the suite")?;
        writeln!(kept, "{line}").with_context(|| format!("writing {}", stream.display()))?;
        match results.read(&line) {
            Some(News::Step(step)) => eprintln!("{step}"),
            Some(News::Ended(_, Ended { how: How::NotClaimed, .. })) | None => {}
            Some(News::Ended(name, Ended { how, seconds })) => eprintln!("{:>7}  {name}, {seconds:.1} s", how.word()),
        }
    }
    results.end(child.wait()?.success());
    Ok(results)
}

fn print(wanted: &Wanted, results: &Results, (stream, report): (&Path, &Path)) {
    let text = fs::read_to_string(report).ok();
    println!("{}, GatewayClass {}\n", wanted.release, wanted.class);
    print!("{}", table::results(results));
    match text.as_deref().map(table::profiles) {
        Some(Ok(profiles)) => print!("\n{profiles}"),
        Some(Err(error)) => println!("\nThe report cannot be read: {error:#}"),
        None if wanted.test.is_some() => println!("\nSome tests only: no report."),
        None => println!("\nThe suite wrote no report."),
    }
    println!();
    disclosures(&wanted.release).for_each(|line| println!("- {line}"));
    println!();
    let files: Vec<PathBuf> = [stream, report].into_iter().filter(|file| file.is_file()).map(PathBuf::from).collect();
    files.iter().for_each(|file| println!("{}", file.display()));
}

/// Words of letters, figures and `-` with commas between them: they become part of a regular expression and of a file's name.
fn words(text: &str) -> Result<String, String> {
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if text.split(',').all(is_word) { Ok(text.to_owned()) } else { Err("names with commas between them".to_owned()) }
}

#[cfg(test)]
mod tests;
