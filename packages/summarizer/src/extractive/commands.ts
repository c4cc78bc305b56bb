/** A command line, reduced to the part that distinguishes commands. */
export type Command = ReturnType<typeof readCommand>;

const READERS =
  /^(?:cat|head|tail|less|grep|egrep|rg|ag|find|fd|ls|ll|tree|wc|sed -n|awk|jq|stat|file|which|type|pwd|echo|printf|date|env|printenv|sleep|diff|ps|du|df|git (?:log|show|diff|status|blame|branch|grep|ls-files|rev-parse)|npm (?:ls|view|list|info)|kubectl (?:get|describe|logs)|docker (?:ps|images|logs|inspect))\b/;

const QUOTED_OR_FILTER =
  /"(?:[^"\\]|\\.)*"|'[^']*'|\s*(?<!\|)\|(?!\|)\s*(?:head|tail|grep|egrep|rg|wc|sort|uniq|sed|awk|cut|tee|less|cat|tr|jq|xargs echo)\b(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|>&\d|[^&;|"'\\()`])*(?<!\s)/g;

/** Redirection of output to a file, but not to `/dev/null` or another stream; `x@>2.0.0` is a version. */
const WRITES = /(?:^|[^0-9&>@=<^~!-])>{1,2}\s*(?!\/dev\/|v?\d+(?:\.\d+)+)[\w.~$/"'-]/;
const LONGEST_COMMAND = 2_000;

/** Maximum number of characters of a path in a call. */
export const LONGEST_PATH = 300;

/** Arguments of several lines: `"$(cat <<'EOF' … EOF)"`, and quotation marks around lines. */
const LONG_ARGUMENTS =
  /"\$\(cat\s+<<-?\s*['"]?(\w+)['"]?[ \t]*\n([\s\S]*?)(?:\n[ \t]*\1\s*\)"|$(?![\s\S]))|"((?:[^"\\]|\\[\s\S])*)"|'([^']*)'/g;

/** Text from the standard input of a command that writes no file: `git commit -F - <<'EOF'`. */
const STANDARD_INPUT = /<<-?\s*['"]?(\w+)['"]?[ \t]*\n([\s\S]*?)(?:\n[ \t]*\1[ \t]*(?:\n|$)|$(?![\s\S]))/;

/** End of a first line that continues below: a loop, a condition, a group. */
const OPEN = /(?:\b(?:do|then|else)|[\\({|]|&&)$/;

/** Reads a command line, of which only the first 2,000 characters count. */
export function readCommand(command: string) {
  const whole = command.slice(0, LONGEST_COMMAND).trim();
  let text: string | undefined;
  // Only the first line of a long argument remains in the command's line.
  const short = whole.replace(
    LONG_ARGUMENTS,
    (argument, _tag, heredoc?: string, inTwo?: string, inOne?: string) => {
      const long = (heredoc ?? inTwo ?? inOne ?? "").trim();
      if (long === "" || (heredoc === undefined && !long.includes("\n"))) return argument;
      text ??= long;
      return `"${long.split("\n", 1)[0]!.replaceAll('"', "'")}"`;
    },
  );
  const heredoc = short.search(/<<-?\s*['"]?\w+/);
  const firstLine = (heredoc === -1 ? short : short.slice(0, heredoc))
    .split("\n")
    .find((row) => row.trim() !== "" && !row.trim().startsWith("#"));
  const row = (firstLine ?? "").trim();
  if (!WRITES.test(row)) text ??= STANDARD_INPUT.exec(short)?.[2]?.trim();
  const line = withoutFilters(row)
    .replace(/\s+2>&1|\s+2>\/dev\/null/g, "")
    .trim();
  const key = line
    .replace(/^(?:cd\s+\S+\s*(?:&&|;)\s*)+/, "")
    .replace(/^(?:\w+=\S+\s+|sudo\s+|time\s+|timeout\s+\S+\s+)+/, "")
    .replace(/\s*(?:\|\||&&|;)\s*(?:true|echo\b.*)$/, "")
    .trim();
  return {
    /** Command in a form that can be typed again: one line, without filters of its output. */
    line,
    /** Key that is equal for runs of the same command: without folder, filters and redirections. */
    key,
    /** True when its output is a text (`grep`, `cat`, `git log`) and not a report of success. */
    reads: READERS.test(key) && !WRITES.test(row) && !COMMITS.test(key),
    /**
     * True when the command is not typed again: it includes the text of a file or several lines, writes a file, or edits
     * in place.
     */
    once:
      heredoc !== -1 || text !== undefined || WRITES.test(row) || /\bsed\s+-i\b/.test(row) || OPEN.test(row),
    /** Argument of several lines, for example the message of a commit. */
    text,
  };
}

/** Returns the steps of a command, which `&&`, `||`, `;` and `|` separate, without those inside quotation marks. */
function stepsOf(key: string): string[] {
  const steps = key.match(/(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^&;|"']|(?<!&)&(?!&)|["'])+/g) ?? [];
  return steps.map((step) => step.trim().replace(SAME_AIM, "$1")).filter((step) => step !== "");
}

/** Commands of git whose arguments do not change their aim: the work is committed, or it is pushed. */
const SAME_AIM = /^(git (?:commit|push|pull))\b.*$/;

/** Commands of git that stop at a conflict, which a commit or `--continue` completes. */
const STOPS_AT_CONFLICT = /\bgit (?:-\S+ \S+ )?(merge|pull|cherry-pick|revert|rebase|am)\b/;

const COMMITS = /\bgit (?:-\S+ \S+ )?commit\b/;

/** Commit with its subject on the command line. */
const SUBJECT =
  /\bgit (?:-\S+ \S+ )?commit\b[^;&|]*?\s-\w*m\s*(?:"((?:[^"\\]|\\.)+)"|'([^']+)')(?=[\s;&|)]|$)/g;

/** Returns the subject of the newest commit of a command; undefined when there was nothing to commit. */
export function subjectOf(line: string, output: string): string | undefined {
  if (/^nothing to commit/m.test(output) && !/^\[[^\]\n]+ [0-9a-f]{7,40}\]/m.test(output)) return undefined;
  const [, inTwo, inOne] = [...line.matchAll(SUBJECT)].at(-1) ?? [];
  return inTwo?.startsWith("$") ? undefined : (inTwo?.replace(/\\(.)/g, "$1") ?? inOne);
}

/** Commands that check nothing: their success does not show that the work is correct. */
const TIDIES =
  /^(?:cd|chmod|chown|mkdir|cp|mv|rm|ln|touch|kill|pkill|open|export|source|git (?:add|checkout|switch|stash|fetch))\b/;

/** Texts that are printed or saved, and programs without a file, which are rarely run again. */
const PROBES =
  /^(?:(?:cat|tee|echo|printf)\b|(?:python[\d.]*|node|ruby|perl|php|deno|bun)\s+(?:-(?=\s|$)|-[cep]\b|--eval\b))/;

/**
 * Returns whether a command only prints or saves a text, runs a program without a file, or tidies: its success does not
 * show that the work is correct.
 */
export const isProbe = (key: string): boolean =>
  stepsOf(key).every((step) => PROBES.test(step) || TIDIES.test(step));

/** Returns whether a command only prepares or tidies, and checks nothing. */
export const isTidy = (key: string): boolean => stepsOf(key).every((step) => TIDIES.test(step));

/** Returns the purpose of a command: its last step that does more than tidy. */
const aimOf = (key: string) => {
  const steps = stepsOf(key);
  return steps.findLast((step) => !TIDIES.test(step)) ?? steps.at(-1);
};

/** Returns whether both commands have the same aim. */
export const hasSameAim = (key: string, other: string): boolean => aimOf(key) === aimOf(other);

/**
 * Returns whether the success of a command achieves what an earlier one failed to do: it has the last step of the
 * earlier one, or it ends by hand the merge or rebase that stopped.
 */
export function completes(laterKey: string, earlierKey: string): boolean {
  const aim = aimOf(earlierKey);
  if (aim !== undefined && stepsOf(laterKey).includes(aim)) return true;
  const stopped = STOPS_AT_CONFLICT.exec(earlierKey)?.[1];
  if (stopped === undefined) return false;
  const ended = /\bgit (?:-\S+ \S+ )?(?:merge|cherry-pick|revert|rebase|am) --(?:continue|abort|quit|skip)\b/;
  const isCommit = stopped !== "rebase" && /\bgit (?:-\S+ \S+ )?commit\b/.test(laterKey);
  return isCommit || ended.test(laterKey);
}

/** Returns whether a command that failed leaves a merge or rebase under way, which has to be ended. */
export const leavesConflict = ({
  key,
  errorLine = "",
}: {
  key: string;
  errorLine?: string | undefined;
}): boolean => STOPS_AT_CONFLICT.test(key) && /conflict|could not apply/i.test(errorLine);

/** Returns whether a command marks the conflicts of a merge as resolved. */
export const resolvesConflict = (key: string): boolean => /\bgit (?:-\S+ \S+ )?(?:add|rm)\b/.test(key);

/** Returns a command without the filters of its output; a bar inside quotation marks is none. */
const withoutFilters = (row: string): string =>
  row.replace(QUOTED_OR_FILTER, (part) => (/^["']/.test(part) ? part : ""));

/** Returns files that a shell command clearly writes: `> file`, `tee file`, `sed -i … file`. */
export function writtenPaths(command: string): string[] {
  const head = command.slice(0, 2_000);
  const targets = [
    ...head.matchAll(/(?:[^0-9&>@=<^~!-]>{1,2}|\btee(?: -a)?)\s*(?!=?v?\d+(?:\.\d+)+)([\w./~@-]+\.\w+)/g),
  ].map((match) => match[1]!);
  const inPlace = /\bsed\s+-i\b.*\s([\w./~@-]+\.\w+)\s*$/m.exec(head)?.[1];
  return [...new Set(inPlace === undefined ? targets : [...targets, inPlace])].filter(
    (path) => !path.startsWith("/dev/"),
  );
}

/** Ends of addresses, and devices, which look like paths. */
const NO_FILE = /^\/\/|^\/dev\//;

/** A function in a program on the command line: `JSON.parse(`, `console.log(`. */
const CALLED = /[\w$.]+\(/g;

/** A name with a dot that is no file: a member of an object or a structure (`line.c_lflag`, `serial.fd`). */
const MEMBER =
  /^[\w-]+\.(?!(?:[a-z]{1,3}|[ch](?:pp|xx)|[jt]sx?|[cm][jt]s|jsonl?|html|scss|less|toml|ya?ml|lock|conf|java|dart|vue|svelte|swift|proto|gradle|plist|tscn|woff2?|jpe?g|webp|docx|xlsx|sqlite3?|mp[34]|ps1|md|txt)$)/i;

/** Returns the files and folders that a command names. */
export function pathsIn(key: string): string[] {
  const words = key
    .slice(0, 2_000)
    .replace(CALLED, " ")
    .split(/[\s'"=`(),:]+/)
    .filter(
      (word) =>
        word.length <= LONGEST_PATH &&
        !NO_FILE.test(word) &&
        !MEMBER.test(word) &&
        /^(?!.*\.\.[\w.]|\.\w+\.\w[\w.]*$)(?:[\w./~@-]+\.[A-Za-z]\w*|(?:~|\.{1,2})?(?:\/[\w.@-]+){2,})$/.test(
          word,
        ),
    );
  return [...new Set(words)];
}
