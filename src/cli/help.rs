//! The longer texts of help and manual.

pub const ABOUT: &str = "\
Coding agents keep a conversation as a file and send all of it with every request. One tool response of several megabytes \
in it, and no request fits any more: the conversation is wedged, and so is every attempt to resume it.

unwedge finds such responses in the files of the agents it knows, cuts each to its limit with one marker line that says what \
was there, and leaves every other byte as it was. Each file is backed up before it is changed, the new bytes are proven before \
they take its place, and every run can be undone.";

pub const AFTER: &str = "\
A PATH is a file, a directory to walk, or a conversation id (jp-c17636257123). Write ./check for a file that is named like a \
command. Without a command, PATHs are checked.

Exit status:
  0    nothing over a limit, or all of it repaired and verified
  1    findings remain
  2    trouble: usage, unreadable or broken input, a stream in use, a failed backup or verification
  130  interrupted

Files:
  unwedge.toml                 limits for what lies below it; the nearest one holds
  ~/.config/unwedge/config.toml
                               the user's limits
  ~/.local/state/unwedge       backups and the journal
  (or the platform's own directories)

  A configuration file may hold, all of it optional:
    batch_ceiling = \"2MB\"
    [tools.'*']
    size_threshold = \"256KB\"
    [tools.shell]
    size_threshold = \"1MB\"
    keep = \"both\"
    unit = \"lines\"

Units:
  bytes    characters, as many as fit (the default)
  lines    whole lines
  json     JSON that stays JSON: every key stays, the largest strings and the longest arrays become shorter
  diff     whole file sections of a diff
  auto     what suits the text; a long base64 blob is replaced by its media type, size and hash
  What does not fit in its unit is cut in lines, or else in bytes. Next to the marker a second line says what there is:
    [1200 of 8000 lines kept; omitted 1201-8000; full text: /spill/0b5c….txt]
  With --spill DIR the whole text of every cut response is kept in DIR before it is cut, and the second line names that file,
  so that the agent can read on. Where the agent keeps the very same text itself, its file is named and nothing is written.

Sizes:
  A number of bytes, or a number with B, K, KB, KiB, M, MB, MiB, G, GB or GiB,
  which are powers of 1024; 1.5MB may have a point, and unlimited is no limit.
  The least limit is 64 bytes.

Environment:
  NO_COLOR, CLICOLOR_FORCE     colour, unless --color says
  XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_DATA_HOME, JP_USER_DATA_DIR
                               where files are, if absolute

Examples:
  unwedge                      look where the known agents keep their streams
  unwedge fix -n .             see what would be cut below this directory
  unwedge fix jp-c17636257123  repair one conversation
  unwedge undo .               put back what the latest run cut here";

pub const CHECK: &str = "\
Exit status:
  0    nothing over a limit
  1    findings
  2    trouble
  130  interrupted

Examples:
  unwedge check
  unwedge check --size-threshold 64KB --tool shell=1MB .jp
  git diff --name-only -z --staged | unwedge check --files-from - -0";

pub const FIX_ABOUT: &str = "\
Cut what is over a limit, in place.

Everything is planned before anything is written. A file that is to change is backed up whole, its new bytes are written \
beside it and proven, and only then take its place. A stream that is in use is refused. Nothing is written where nothing is \
over a limit, and a second run finds nothing but what could not be cut further.";

pub const UNWEDGE: &str = "\
Edit also what else keeps a conversation wedged: stored errors of too much context, and counts of what is cut.

pi acts on both at the next prompt: it compacts, and what a cut kept is never sent. So the text of the errors a session ends in \
is reworded, and the count of tokens its last answer is stored with is lowered by what was cut before it, four bytes a token. \
Without this flag and --no-unwedge that is done where a session ends in such an error and something that is sent was cut. \
With it, counts are lowered in a session that ends well too, and errors reworded where nothing is over a limit. Other agents \
store nothing of the kind.";

pub const FIX: &str = "\
Exit status:
  0    nothing over a limit, or all of it repaired and verified
  1    findings remain, as they always do with -n
  2    trouble: also a stream in use, a failed backup or verification
  130  interrupted

Examples:
  unwedge fix -n --diff full .     see every line that would go
  unwedge fix --all                repair everything
  unwedge fix --keep both --tool shell=32KB events.json
  unwedge fix --unit auto --spill ~/.local/share/agent-texts --all
                                   cut in natural units, keep whole texts at hand";

pub const UNDO_ABOUT: &str = "\
Put back what a run cut.

A file that is as the run left it becomes the original again, byte for byte. In one that has grown since, each cut text that \
still stands as it was written is put back in its place, and later turns stay. What was changed otherwise is left and \
reported. Undo backs up what it replaces, so it can be undone too.";

pub const UNDO: &str = "\
Without an argument the latest runs are shown. Where a run has the name that is given, the run is meant; write ./name for a \
file that is named like one.

Exit status:
  0    everything is back
  1    a cut was left, because its text was changed since
  2    trouble, or no such run
  130  interrupted";

pub const SHOW: &str = "\
The text is printed as the assistant received it: byte for byte to a file or a pipe, with control characters made visible on \
a terminal.";

pub const BACKUPS: &str = "\
A backup is a plain copy of the whole file, named by its SHA-256: it can be copied back by hand. Nothing is removed unless \
prune is told to.

Examples:
  unwedge backups prune --older-than 30d --keep 100";
