// What a summary carries of a session, measured without a model. A session is cut at six points; what is before the kept tail
// is summarized.
//
//   reach   of the exact strings in the next calls that only what was summarized has: the share that the summary has, or for a name,
//           of a file that the summary names (0.8). Nearer calls weigh more; what no file has counts double
//   user    of what users asked for: the share of messages of which the summary has half of the eight rarest words
//   found   of what the agent concluded at the end of its turns: the same
//   state   of the files changed last, commands run last, failures not settled, ids named last, open tasks: the share it has
//   dump    share of the characters in bare lists: eight or more code words in a row
//   prec    of the exact strings in the summary, the share that is written again later

const EXTENSIONS =
  "ts|tsx|js|jsx|mjs|cjs|json|jsonl|md|css|html|sh|py|go|rs|toml|ya?ml|sql|txt|lock|svg|png|env";
const SHAPES = new RegExp(
  [
    "https?://[^\\s\"'`<>)\\]}]+",
    "(?:~|\\.{1,2})?/?(?:[\\w@.+-]+/)+[\\w@.+-]+",
    `\\b[\\w-]+\\.(?:${EXTENSIONS})\\b`,
    "\\b\\d{1,3}(?:\\.\\d{1,3}){3}(?::\\d+)?\\b",
    "\\bv?\\d+\\.\\d+\\.\\d+(?:[-.\\w]*\\w)?\\b",
    "\\b(?=[0-9a-f]*\\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\\b",
    "\\b[a-z][a-z0-9]*[A-Z]\\w{2,}\\b",
    "\\b[A-Z][a-z0-9]+[A-Z]\\w+\\b",
    "\\b[A-Za-z0-9]+_[A-Za-z0-9_]{2,}\\b",
    "--[a-z][a-z-]{2,}",
    "\\b[A-Z][A-Z0-9_]{4,}\\b",
    "\\b[a-z0-9]+(?:-[a-z0-9]+){2,}\\b",
    "\\blocalhost:\\d+\\b",
    "#\\d{2,6}\\b",
  ].join("|"),
  "g",
);
const ID =
  /(?<![\w#])#\d{1,6}\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b|\b\d{1,3}(?:\.\d{1,3}){3}\b|\b[A-Z]{2,5}-\d{2,5}\b|https?:\/\/[^\s)`"'<>\]]+/g;
const STOP = new Set(
  "the and for with are was were been this that these those you your our its from not does did done have has had can could will would should just then than there here what which who how why when all any some more most also into out down over under again only very make made use used using let now new get got please want need like see sure yes check look after before because about same other".split(
    " ",
  ),
);
const CONCLUDES =
  /because|since|so that|instead|rather|root|cause|means|already|no longer|the (?:issue|problem|fix|reason)|decid|chose|recommend|overkill|risky|fixed|added|removed|replaced|works|pass|原因|因为|已经|통과|원인|때문/i;
const READS =
  /^(?:cd [^&;]+(?:&&|;)\s*)?(?:cat|ls|head|tail|grep|rg|find|sed -n|wc|git (?:status|diff|log|show)|echo|pwd|which|sleep)\b/;

const inText = (value, depth = 6) => {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null || depth === 0) return String(value ?? "");
  return Object.values(value)
    .map((part) => inText(part, depth - 1))
    .join("\n");
};
const blocksOf = ({ content }) =>
  typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
const proseOf = (message) =>
  blocksOf(message)
    .flatMap(({ type, text }) => (type === "text" ? [text] : []))
    .join("\n");
const callsOf = (message) => blocksOf(message).filter(({ type }) => type === "toolCall");
const textOf = (message) =>
  message.role === "bashExecution"
    ? `${message.command}\n${message.output}`
    : [proseOf(message), ...callsOf(message).map((call) => `${call.name} ${inText(call.arguments)}`)].join(
        "\n",
      );
const tokensOf = (message) => Math.ceil(textOf(message).length / 4);
const mean = (values) => {
  const known = values.filter(Number.isFinite);
  return known.length === 0 ? undefined : known.reduce((sum, value) => sum + value, 0) / known.length;
};

function stringsIn(text) {
  const found = [...text.matchAll(SHAPES)].map(([string]) => string.replace(/[.,:;!?]+$/, ""));
  const isWord = (string) =>
    string.includes("/") && !/^https?:/.test(string) && !/[._]|^[~/]|\/.*\//.test(string);
  return new Set(found.filter((string) => string.length >= 5 && string.length <= 140 && !isWord(string)));
}
const wordsIn = (text) =>
  (text.toLowerCase().match(/[\p{L}][\p{L}\p{N}'_-]{2,}|\p{Lo}{2,}/gu) ?? [])
    .filter((word) => !STOP.has(word))
    .map((word) => word.replace(/(?:ing|ed|es|s)$/u, ""));
const suffix = (path, parts) => path.split("/").filter(Boolean).slice(-parts).join("/");

function share(summary, string) {
  if (summary.includes(string)) return 1;
  const parts = string.includes("/") ? string.split("/").filter(Boolean).length : 0;
  if (parts >= 3 && summary.includes(suffix(string, Math.min(parts - 1, 3)))) return 0.9;
  return parts >= 2 && summary.includes(suffix(string, 2)) ? 0.7 : 0;
}

/** Six points of a session: what is before the kept tail, the tail, and what comes after it. */
export function cutsOf(messages, keep) {
  const cuts = [];
  for (let point = 1; point <= 6; point++) {
    const now = Math.floor((messages.length * point) / 7);
    let from = now;
    for (let kept = 0; from > 0 && kept < keep; ) kept += tokensOf(messages[--from]);
    while (from < now && messages[from].role === "toolResult") from++;
    if (from >= 20)
      cuts.push({
        history: messages.slice(0, from),
        tail: messages.slice(from, now),
        future: messages.slice(now),
      });
  }
  return cuts.length < 4 && keep > 6_000 ? cutsOf(messages, 6_000) : cuts;
}

/** The strings of the next 60 calls that only what was summarized has, with the number of the call. */
function neededStrings({ history, tail, future }) {
  const before = stringsIn(history.map(textOf).join("\n"));
  const inSight = stringsIn(tail.map(textOf).join("\n"));
  const needed = new Map();
  let number = 0;
  for (const message of future) {
    for (const call of callsOf(message)) {
      number++;
      for (const string of stringsIn(inText(call.arguments))) {
        if (before.has(string) && !inSight.has(string) && !needed.has(string)) needed.set(string, number);
        inSight.add(string);
      }
    }
    for (const string of stringsIn(message.role === "assistant" ? proseOf(message) : textOf(message)))
      inSight.add(string);
    if (number >= 60) break;
  }
  return needed;
}

function reachOf(summary, cut) {
  const needed = neededStrings(cut);
  if (needed.size < 3) return undefined;
  const files = new Map();
  for (const call of cut.history.flatMap(callsOf)) {
    const given = inText(call.arguments);
    const path = call.arguments?.file_path ?? call.arguments?.path ?? call.arguments?.filePath;
    const named =
      typeof path === "string" ? [path] : (given.match(/[\w./~@-]+\.\w{1,5}\b/g) ?? []).slice(0, 4);
    const result = cut.history.find(({ toolCallId }) => toolCallId === call.id);
    for (const string of stringsIn(`${given}\n${result ? textOf(result) : ""}`)) {
      if (!/[/.:#]|^--/.test(string)) files.set(string, [...(files.get(string) ?? []), ...named]);
    }
  }
  let got = 0;
  let all = 0;
  for (const [string, number] of needed) {
    const homes = files.get(string) ?? [];
    const weight = 2 ** (-(number - 1) / 20) * (homes.length > 0 ? 1 : 2);
    all += weight;
    got +=
      weight *
      (share(summary, string) || (homes.some((path) => summary.includes(suffix(path, 1))) ? 0.8 : 0));
  }
  return got / all;
}

/** Share of texts of which the summary has half of the eight rarest words. */
function carriedOf(summary, texts, history) {
  const counts = new Map();
  for (const message of history) {
    const text = textOf(message).slice(0, 6_000);
    for (const word of new Set([...stringsIn(text), ...wordsIn(text)]))
      counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const rarity = (word) => Math.log((history.length + 1) / (1 + (counts.get(word) ?? 0)));
  const said = new Set(wordsIn(summary));
  const hits = texts.flatMap((text) => {
    const anchors = [...new Set([...stringsIn(text), ...wordsIn(text)])]
      .filter((word) => rarity(word) > 0.7)
      .sort((a, b) => rarity(b) - rarity(a))
      .slice(0, 8);
    if (anchors.length < 3) return [];
    const told = anchors.filter((word) => (word.length > 3 && summary.includes(word)) || said.has(word));
    return [told.length / anchors.length >= 0.5 ? 1 : 0];
  });
  return mean(hits);
}

const clean = (text) =>
  text
    .replace(/<([a-z-]+)[^>]*>[\s\S]*?<\/\1>/g, "")
    .replace(/```[\s\S]*?```/g, "")
    .trim();
const requestsIn = (history) =>
  history
    .filter(({ role }) => role === "user")
    .map((message) => clean(proseOf(message)).slice(0, 400))
    .filter(({ length }) => length > 12);

function conclusionsIn(history) {
  const closing = history.filter((message, index) => {
    const next = history
      .slice(index + 1)
      .find((later) => later.role === "user" || proseOf(later).trim().length > 60);
    return (
      message.role === "assistant" &&
      proseOf(message).trim().length > 60 &&
      (next === undefined || next.role === "user")
    );
  });
  return closing.flatMap((message) =>
    clean(proseOf(message))
      .split(/(?<=[.!?:])\s+|(?<=[。！？])|\n+/)
      .filter(({ length }) => length > 20 && length < 400)
      .filter((sentence) => CONCLUDES.test(sentence))
      .slice(0, 4),
  );
}

/** Facts about the state at the end, each a test of the summary. */
function stateOf(summary, history) {
  const results = new Map(history.map((message) => [message.toolCallId, message]));
  const edits = [];
  const runs = new Map();
  let open = [];
  for (const call of history.flatMap(callsOf)) {
    const given = inText(call.arguments);
    const result = results.get(call.id);
    const failed = result?.isError === true;
    const path = call.arguments?.file_path ?? call.arguments?.path ?? call.arguments?.filePath;
    const patched = [...given.matchAll(/\*\*\* (?:Update|Add) File: ((?:(?!\\n)[^\n"`])+)/g)].map((match) =>
      match[1].trim(),
    );
    const program = /exec_command\(\{\s*"?cmd"?\s*:\s*"((?:[^"\\]|\\.)*)"/.exec(given)?.[1];
    const command = call.arguments?.command ?? call.arguments?.cmd ?? program;
    if (patched.length > 0) edits.push(...patched);
    else if (path && /edit|write|replace|patch/i.test(call.name) && !failed) edits.push(path);
    else if (typeof command === "string" && !READS.test(command.trim())) {
      const key = command
        .split("\n")[0]
        .replace(/^(?:cd\s+\S+\s*(?:&&|;)\s*)+/, "")
        .replace(/\s*(?:2>&1|\|.*)$/g, "")
        .trim()
        .slice(0, 60);
      runs.delete(key);
      runs.set(key, { failed, output: result ? textOf(result) : "" });
    }
    const tasks = call.arguments?.todos ?? call.arguments?.plan;
    if (Array.isArray(tasks)) open = tasks.filter(({ status }) => !/^(?:completed|done)$/.test(status ?? ""));
  }
  const said = new Set(wordsIn(summary));
  const tells = (text) => {
    const words = wordsIn(text).slice(0, 12);
    return words.filter((word) => said.has(word) || summary.includes(word)).length /
      Math.max(words.length, 1) >=
      0.6
      ? 1
      : 0;
  };
  const ids = history
    .filter(({ role }) => role === "assistant")
    .flatMap((message) => proseOf(message).match(ID) ?? []);
  const newest = (values, count) => [...new Set(values.toReversed())].slice(0, count);
  const failures = [...runs.values()].filter(({ failed }) => failed).slice(-2);
  return mean([
    ...newest(edits, 6).map((path) => share(summary, path) || (summary.includes(suffix(path, 1)) ? 0.8 : 0)),
    ...newest([...runs.keys()], 4).map((key) =>
      summary.includes(key) ? 1 : summary.includes(key.split(/\s+/).slice(0, 3).join(" ")) ? 0.7 : 0,
    ),
    ...failures.map(({ output }) =>
      tells(output.split("\n").find((line) => /error|fail|not found|denied|panic/i.test(line)) ?? ""),
    ),
    ...newest(ids, 4).map((id) => (summary.includes(id) ? 1 : 0)),
    ...open.slice(0, 4).map((task) => tells(task.content ?? task.step ?? task.text ?? "")),
  ]);
}

const isPlain = (word) =>
  !word.includes("`") &&
  (/\p{Lo}/u.test(word) ||
    /^["'(*-]*[a-z]{2,}['’]?[a-z]*[.,:;!?)"'*]*$/.test(word) ||
    /^[A-Z][a-z]{1,8}[.,:]?$/.test(word));

function dumpOf(summary) {
  let dump = 0;
  for (const line of summary.split("\n")) {
    let run = [];
    for (const word of [...line.split(/\s+/), "end"]) {
      if (!isPlain(word)) run.push(word);
      else {
        if (run.length >= 8) dump += run.join(" ").length;
        run = [];
      }
    }
  }
  return dump / Math.max(1, summary.length);
}

/** The measures of one summary of what is before a cut. */
export function measureSummary(summary, cut) {
  const later = stringsIn(
    cut.future
      .filter(({ role }) => role !== "toolResult")
      .map(textOf)
      .join("\n"),
  );
  const mine = [...stringsIn(summary)];
  return {
    tokens: Math.ceil(summary.length / 4),
    reach: reachOf(summary, cut),
    user: carriedOf(summary, requestsIn(cut.history), cut.history),
    found: carriedOf(summary, conclusionsIn(cut.history), cut.history),
    state: stateOf(summary, cut.history),
    dump: dumpOf(summary),
    prec: mean(mine.map((string) => (later.has(string) ? 1 : 0))),
  };
}

/** The mean of each measure over several summaries; undefined where none has it. */
export const meanOf = (rows) =>
  Object.fromEntries(Object.keys(rows[0] ?? {}).map((name) => [name, mean(rows.map((row) => row[name]))]));
