// The demo session is written as a screenplay, so that people can read and correct it: plain text in which a line
// that begins with "§ " is a direction and everything up to the next one is what it says.
//
//     § user after=4m
//     Where would a cache go?
//
// A direction is a verb, words, and options of the form key=value. What stands before the first one is a comment.

/** Directions in order: `{verb, words, options, body, place}`; `place` (file:line) is for error messages. */
export function parseScreenplay(text, file) {
  const directions = [];
  let body = [];
  const close = () => {
    const last = directions.at(-1);
    if (last) last.body = body.join("\n").replace(/^\n+|\n+$/g, "");
    body = [];
  };
  for (const [index, line] of text.split("\n").entries()) {
    if (!line.startsWith("§ ")) {
      body.push(line);
      continue;
    }
    close();
    directions.push({ ...parseDirection(line.slice(2)), body: "", place: `${file}:${index + 1}` });
  }
  close();
  return directions;
}

function parseDirection(line) {
  const [verb, ...rest] = line.trim().split(/\s+/);
  const options = {};
  const words = [];
  for (const word of rest) {
    const [, key, value] = /^([a-z]+)=(.+)$/.exec(word) ?? [];
    if (key) options[key] = value;
    else words.push(word);
  }
  return { verb, words, options };
}

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** "4m" → 240,000 milliseconds. */
export function parseDuration(text) {
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? [];
  if (!unit) throw new Error(`${text} is no duration: write 300ms, 20s, 4m or 2h.`);
  return Math.round(Number(amount) * UNITS[unit]);
}

/** The options of a direction without its timing; digits become numbers. */
export function parseDetails({ after, ...options }) {
  const typed = (value) => (/^\d+$/.test(value) ? Number(value) : value);
  return Object.fromEntries(Object.entries(options).map(([key, value]) => [key, typed(value)]));
}

/** The replacements of an `edit` call: blocks of `<<<<`, the old text, `====`, the new text, `>>>>`. */
export function parseEdits(body) {
  const edits = [];
  for (const [, oldText, newText] of body.matchAll(/^<<<<\n([\s\S]*?)\n====\n([\s\S]*?)\n?>>>>$/gm)) {
    edits.push({ oldText, newText });
  }
  return edits;
}
