//! Start, state and end of a lab, as people ask for them.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use nix::unistd::Uid;

use crate::keeper::{PROCESSES, SELF};
use crate::place::Place;
use crate::process::Process;
use crate::program::{self, PROGRAMS};
use crate::simlet::image;

/// Written, a line for each step, while the lab starts; the last one is [`READY`].
pub(crate) const STEPS: &str = "steps";

/// The last step.
pub(crate) const READY: &str = "ready";

/// How long a start may take: some 10 s on two cores, several times that when they do other things.
const START: Duration = Duration::from_secs(120);

/// How long the end may take.
const END: Duration = Duration::from_secs(20);

/// How often is looked.
const LOOK: Duration = Duration::from_millis(20);

/// A lab that runs, or one whose processes have not all ended.
pub(crate) struct Running {
    keeper: Process,
    /// The first process inside.
    pub(crate) init: Process,
}

impl Running {
    pub(crate) fn find(place: &Place) -> Option<Self> {
        let text = std::fs::read_to_string(place.file(PROCESSES)).ok()?;
        let mut processes = text.lines().map(Process::from_words);
        let (Some(Some(keeper)), Some(Some(init))) = (processes.next(), processes.next()) else { return None };
        (keeper.lives() || init.lives()).then_some(Self { keeper, init })
    }

    /// The lab, or a word on how to get one.
    pub(crate) fn expect(place: &Place) -> anyhow::Result<Self> {
        Self::find(place).context("the lab does not run; `make lab-up` starts it")
    }
}

/// Starts the lab unless it runs.
pub(crate) fn up(place: &Place, chancery: Option<&Path>) -> anyhow::Result<ExitCode> {
    ensure!(Uid::effective().is_root(), "the lab makes namespaces: it has to be started as root");
    for name in PROGRAMS.iter().copied().chain(["kubectl", "echo-basic"]) {
        place.program(name)?;
    }
    if Running::find(place).is_some() {
        eprintln!("the lab runs already");
        return status(place);
    }
    let _earlier = std::fs::remove_dir_all(place.state());
    std::fs::create_dir_all(place.file("log")).context("making the folder of the lab")?;
    if let Some(chancery) = chancery {
        let chancery = std::fs::canonicalize(chancery).with_context(|| format!("--chancery {}", chancery.display()))?;
        std::os::unix::fs::symlink(chancery, place.file("chancery"))?;
    }
    if image::chancery(place).is_none() {
        eprintln!(
            "there is no chancery here, and so no image of it: `make build` makes one, `--chancery FILE` names another"
        );
    }
    let log = File::create(place.file("log/lab.log")).context("making the log of the lab")?;
    let mut keeper = Command::new(SELF)
        .args(["--state".as_ref(), place.state().as_os_str(), "keep".as_ref()])
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("starting the lab")?;
    if let Err(error) = follow_steps(place, &mut keeper) {
        // the logs stay, for they say why
        end(place)?;
        return Err(error);
    }
    let mut word = keeper.stdin.take().context("the keeper has no input")?;
    word.write_all(b"!").context("letting go of the lab")?;
    Ok(ExitCode::SUCCESS)
}

/// Prints each step as it is done.
fn follow_steps(place: &Place, keeper: &mut Child) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut shown = 0;
    loop {
        let text = std::fs::read_to_string(place.file(STEPS)).unwrap_or_default();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let new = text.get(shown..whole).unwrap_or_default();
        eprint!("{new}");
        shown = whole;
        if new.lines().any(|line| line.starts_with(READY)) {
            return Ok(());
        }
        let log = place.file("log");
        if let Some(status) = keeper.try_wait()? {
            let why = std::fs::read_to_string(log.join("lab.log")).unwrap_or_default();
            let last = why.lines().filter(|line| line.starts_with("lab: ")).take(1).collect::<String>();
            bail!("the lab ended ({status}): {last}; {} has the logs", log.display());
        }
        ensure!(
            began.elapsed() < START,
            "the lab is not ready after {} s; {} says why",
            START.as_secs(),
            log.display()
        );
        std::thread::sleep(LOOK);
    }
}

/// Says what runs.
pub(crate) fn status(place: &Place) -> anyhow::Result<ExitCode> {
    if Running::find(place).is_none() {
        eprintln!("the lab does not run; `make lab-up` starts it");
        return Ok(ExitCode::FAILURE);
    }
    let steps = std::fs::read_to_string(place.file(STEPS)).unwrap_or_default();
    let ready = steps.lines().find(|line| line.starts_with(READY)).unwrap_or("it is starting");
    print!("{}", std::fs::read_to_string(place.file(program::STATES)).unwrap_or_default());
    println!("{ready}");
    Ok(ExitCode::SUCCESS)
}

/// Ends the lab, and takes its files away.
pub(crate) fn down(place: &Place) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let ran = end(place)?;
    if place.file("log").is_dir() {
        std::fs::remove_dir_all(place.state()).context("taking its files away")?;
    }
    match ran {
        true => eprintln!("the lab is gone, after {:.1} s", began.elapsed().as_secs_f64()),
        false => eprintln!("the lab does not run"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends its processes. False: there were none.
fn end(place: &Place) -> anyhow::Result<bool> {
    let Some(running) = Running::find(place) else { return Ok(false) };
    let began = Instant::now();
    // the keeper's end is the first one's, but the keeper may be gone already
    running.keeper.kill();
    while running.keeper.lives() || running.init.lives() {
        if began.elapsed() > END / 2 {
            running.init.kill();
        }
        ensure!(began.elapsed() < END, "processes of the lab do not end; the first one is {}", running.init.pid);
        std::thread::sleep(LOOK);
    }
    Ok(true)
}

/// Prints a log.
pub(crate) fn logs(place: &Place, name: &str) -> anyhow::Result<ExitCode> {
    let file = place.file(&format!("log/{name}.log"));
    let mut log = File::open(&file).with_context(|| format!("opening {}", file.display()))?;
    // an API server says a lot; the last of it is what people look for
    const SHOWN: u64 = 1 << 20;
    log.seek(SeekFrom::Start(log.metadata()?.len().saturating_sub(SHOWN)))?;
    let mut text = Vec::new();
    log.read_to_end(&mut text)?;
    std::io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Kills a program, which stays so.
pub(crate) fn stop(place: &Place, name: &str) -> anyhow::Result<ExitCode> {
    ensure!(PROGRAMS.contains(&name), "no program {name}: {}", PROGRAMS.join(", "));
    Running::expect(place)?;
    std::fs::write(place.file(&program::stopped(name)), "")?;
    until_state(place, name, program::STOPPED)
}

/// Starts it again.
pub(crate) fn start(place: &Place, name: &str) -> anyhow::Result<ExitCode> {
    ensure!(PROGRAMS.contains(&name), "no program {name}: {}", PROGRAMS.join(", "));
    Running::expect(place)?;
    let _missing = std::fs::remove_file(place.file(&program::stopped(name)));
    until_state(place, name, program::RUNNING)
}

fn until_state(place: &Place, name: &str, state: &str) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    loop {
        let states = std::fs::read_to_string(place.file(program::STATES)).unwrap_or_default();
        let line = states.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap_or_default();
        if line.split_whitespace().nth(1) == Some(state) {
            return Ok(ExitCode::SUCCESS);
        }
        Running::expect(place)?;
        ensure!(began.elapsed() < START, "{name} is not {state} after {} s: {line}", START.as_secs());
        std::thread::sleep(LOOK);
    }
}
