//! `unwedge formats`, `unwedge completions` and `unwedge man`: what the program can say about itself.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use serde::Serialize;
use unwedge::format::{About, FORMATS};

use super::args::{self, Cli, Completions, Formats, Plain};
use super::exit::Exit;
use super::out::{Console, styled};
use super::render::json;

/// Prints the formats.
pub fn formats(args: &Formats, console: &mut Console) -> Exit {
    let formats: Vec<About> = FORMATS.iter().map(|format| format.about()).collect();
    if args.output_format == Plain::Json {
        let formats = formats.iter().map(FormatJson::of).collect();
        json::pretty(&FormatsJson { schema_version: 1, formats }, console);
        return Exit::Clean;
    }
    for format in formats {
        console.line(format!("{}: {}", styled(console.styles.path, format.name), format.agent));
        for (what, text) in [("where", format.places), ("reads", format.reads), ("writes", format.writes)] {
            console.line(format!("    {what:<7} {text}"));
        }
    }
    Exit::Clean
}

#[derive(Serialize)]
struct FormatsJson {
    schema_version: u32,
    formats: Vec<FormatJson>,
}

#[derive(Serialize)]
struct FormatJson {
    name: &'static str,
    agent: &'static str,
    places: &'static str,
    reads: &'static str,
    writes: &'static str,
}

impl FormatJson {
    fn of(about: &About) -> Self {
        let About { name, agent, places, reads, writes } = *about;
        FormatJson { name, agent, places, reads, writes }
    }
}

/// Prints a completion script.
pub fn completions(args: &Completions, console: &mut Console) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "unwedge", &mut script);
    console.write(&script);
    Exit::Clean
}

/// Prints the manual page, or writes all of them.
pub fn man(args: &args::Man, console: &mut Console) -> Result<Exit> {
    let pages = pages()?;
    match &args.dir {
        None => pages.iter().filter(|(name, _)| name == "unwedge.1").for_each(|(_, page)| console.write(page)),
        Some(dir) => {
            for (name, page) in &pages {
                write(&dir.join(name), page)?;
            }
        }
    }
    Ok(Exit::Clean)
}

fn write(path: &Path, page: &[u8]) -> Result<()> {
    let written = File::create(path).and_then(|mut file| file.write_all(page));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Every page by its file name, sorted.
fn pages() -> Result<Vec<(String, Vec<u8>)>> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    collect(&command, &mut pages)?;
    pages.sort();
    Ok(pages)
}

/// Writes one section of a page.
type Part = fn(&Man, &mut dyn Write) -> std::io::Result<()>;

/// What every piece of a page begins with, and a page once.
const PREAMBLE: &[u8] = b".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

fn collect(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        collect(sub, pages)?;
    }
    let man = Man::new(command.clone()).manual("unwedge").source(concat!("unwedge ", env!("CARGO_PKG_VERSION")));
    let parts: [Part; 6] = [
        Man::render_title,
        Man::render_name_section,
        Man::render_synopsis_section,
        Man::render_description_section,
        Man::render_options_section,
        Man::render_subcommands_section,
    ];
    let parts = parts.iter().take(if command.has_subcommands() { 6 } else { 5 });
    let mut page = PREAMBLE.to_vec();
    for part in parts {
        let mut text = Vec::new();
        part(&man, &mut text)?;
        page.extend_from_slice(text.strip_prefix(PREAMBLE).unwrap_or(&text));
    }
    if let Some(text) = command.get_after_long_help() {
        page.extend_from_slice(
            sections(&text.to_string()).render().replace(std::str::from_utf8(PREAMBLE)?, "").as_bytes(),
        );
    }
    pages.push((man.get_filename(), page));
    Ok(())
}

/// The text after the options. Its headings, which end in a colon, become sections of the page; what stands before them is
/// notes.
fn sections(text: &str) -> Roff {
    let mut roff = Roff::default();
    let mut heading = "NOTES".to_owned();
    for (at, block) in text.split("\n\n").enumerate() {
        let (first, body) = block.split_once('\n').unwrap_or((block, ""));
        let (next, body) = match first.strip_suffix(':') {
            Some(title) if !title.starts_with(' ') => (title.to_uppercase(), body),
            _ => (heading.clone(), block),
        };
        if at == 0 || next != heading {
            roff.control("SH", [&*next]);
        } else {
            roff.control("PP", []);
        }
        heading = next;
        // A table keeps its lines, a sentence does not.
        let table = body.lines().all(|line| line.starts_with("  ") && line.len() < 100);
        if table {
            roff.control("nf", []);
        }
        for line in body.lines() {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        if table {
            roff.control("fi", []);
        }
    }
    roff
}
