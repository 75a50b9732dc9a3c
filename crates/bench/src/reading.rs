//! Reading: many files, one object with its schema and CEL rules, and `chancery translate` from exec to exit.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use crate::dataset::{self, Endpoints, ROUTES_PER_HOST};
use crate::figure::{Figure, Report, Samples, micros, millis, say};
use crate::process::{Chancery, binary};

/// Files with one object each.
const FILES: usize = 10_000;
/// Routes that are translated, each with its Service and slice.
const ROUTES: usize = 1_000;
const ROUNDS: usize = 9;

/// Prints the figures of reading.
pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    many_files(report)?;
    one_object(report)?;
    translate(report)
}

fn many_files(report: &mut Report) -> anyhow::Result<()> {
    let (_place, conf) = Chancery::place()?;
    for index in 0..FILES {
        std::fs::write(conf.join(format!("route-{index:05}.yaml")), dataset::route(index, "first"))?;
    }
    let mut took = Samples::default();
    for round in 0..ROUNDS {
        say(&format!("reading n={FILES} round {round}"));
        let began = Instant::now();
        let loaded = provider::file::load(std::slice::from_ref(&conf));
        took.add(began.elapsed());
        anyhow::ensure!(loaded.problems.is_empty(), "the data set has problems: {:?}", loaded.problems.first());
    }
    report.figure("reading", "load_files_ms_p50", FILES, (millis(took.percentile(50)), "ms"), Some(1_000.0));
    Ok(())
}

/// Parsing, schema, CEL rules and decoding of one route whose file changed.
fn one_object(report: &mut Report) -> anyhow::Result<()> {
    let file: Arc<str> = "route.yaml".into();
    let mut took = Samples::default();
    for index in 0..ROUTES {
        let text = dataset::route(index, "first");
        let began = Instant::now();
        let read: Vec<api::Decoded> = api::yaml::documents(&text).map(|one| api::read(&one, &file)).collect();
        took.add(began.elapsed());
        anyhow::ensure!(read.iter().all(|read| read.objects.len() == 1 && read.problems.is_empty()), "not one object");
    }
    report.add(&Figure {
        bench: "reading",
        figure: "one_object_us_p50",
        n: 1,
        value: micros(took.percentile(50)),
        unit: "us",
        limit: None,
        peer: dataset::peer("Envoy Gateway 1.9.0 (2026-11), validation only", 50_000.0),
    });
    Ok(())
}

fn translate(report: &mut Report) -> anyhow::Result<()> {
    let (_place, conf) = Chancery::place()?;
    dataset::write(&conf, ROUTES, 18_080, Endpoints::Elsewhere(8080))?;
    for stage in ["status", "envoy"] {
        let mut took = Samples::default();
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let output = Command::new(binary()?)
                .args(["translate", "--to", stage, "-o", "json", "-f"])
                .arg(&conf)
                .stdin(Stdio::null())
                .output()?;
            took.add(began.elapsed());
            let hosts = ROUTES / ROUTES_PER_HOST;
            anyhow::ensure!(output.status.success() && output.stdout.len() > hosts, "translate failed");
        }
        let figure = format!("translate_to_{stage}_ms_p50");
        report.figure("reading", &figure, ROUTES, (millis(took.percentile(50)), "ms"), Some(100.0));
    }
    Ok(())
}
