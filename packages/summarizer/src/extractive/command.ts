/** A command line, reduced to what tells one command from another. */
export interface Command {
  /** The command as someone would type it again: one line, without the filters its output went through. */
  line: string;
  /** Equal for runs of the same thing: without folder, filters and redirections. */
  key: string;
  /** True where its output is somebody's text (`grep`, `cat`, `git log`) and no report of its own success. */
  reads: boolean;
  /** True where the text of a file or an edit in place is part of it: nobody types it a second time. */
  once: boolean;
}

const READERS =
  /^(?:cat|head|tail|less|grep|egrep|rg|ag|find|fd|ls|ll|tree|wc|sed -n|awk|jq|stat|file|which|type|pwd|echo|printf|date|env|printenv|sleep|diff|ps|du|df|git (?:log|show|diff|status|blame|branch|grep|ls-files|rev-parse)|npm (?:ls|view|list|info)|kubectl (?:get|describe|logs)|docker (?:ps|images|logs|inspect))\b/;
const FILTERS =
  /(?<!\|)\|(?!\|)\s*(?:head|tail|grep|egrep|rg|wc|sort|uniq|sed|awk|cut|tee|less|cat|tr|jq|xargs echo)\b.*$/;
/** Output sent to a file, but not to `/dev/null` or another stream; `x@>2.0.0` is a version. */
const WRITES = /(?:^|[^0-9&>@=<^~!-])>{1,2}\s*(?!\/dev\/|v?\d+(?:\.\d+)+)[\w.~$/"'-]/;
const LONGEST_COMMAND = 2_000;

export function readCommand(text: string): Command {
  const whole = text.slice(0, LONGEST_COMMAND).trim();
  const heredoc = whole.search(/<<-?\s*['"]?\w+/);
  const firstLine = (heredoc === -1 ? whole : whole.slice(0, heredoc))
    .split("\n")
    .find((row) => row.trim() !== "" && !row.trim().startsWith("#"));
  const row = (firstLine ?? "").trim();
  const line = withoutFilters(row)
    .replace(/\s+2>&1|\s+2>\/dev\/null/g, "")
    .trim();
  const key = line
    .replace(/^(?:cd\s+\S+\s*(?:&&|;)\s*)+/, "")
    .replace(/^(?:\w+=\S+\s+|sudo\s+|time\s+|timeout\s+\S+\s+)+/, "")
    .replace(/\s*(?:\|\||&&|;)\s*(?:true|echo\b.*)$/, "")
    .trim();
  return {
    line,
    key,
    reads: READERS.test(key) && !WRITES.test(row),
    once: heredoc !== -1 || WRITES.test(row) || /\bsed\s+-i\b/.test(row),
  };
}

/** The command before the filters its output went through; all of it where the bar stands inside quotation marks. */
function withoutFilters(row: string): string {
  const cut = row.replace(FILTERS, "");
  const isOpen = ["'", '"'].some((mark) => (cut.split(mark).length - 1) % 2 === 1);
  return isOpen ? row : cut;
}
