import { contentBlocks, type UserMessage } from "@espalier/session-tree";
import { splitsPair } from "../transcript.ts";

/** A candidate line of a part of the summary. */
export interface Line {
  text: string;
  /** Higher is chosen first. */
  priority: number;
  /** Lower stands first. */
  order: number;
}

/** Chooses lines for the summary's parts, none of them twice. */
export interface LineChooser {
  /** Of `lines`, as many as fit into `room` characters by priority, in their order, as list items. */
  choose(lines: readonly Line[], room: number): string[];
}

/** A line is cut where it is longer than the room for all; what is left of one below this length says nothing. */
const SHORTEST = 24;

export function createLineChooser(): LineChooser {
  const seen = new Set<string>();

  return {
    choose(lines, room) {
      const chosen: Line[] = [];
      let left = room;
      for (const line of lines.toSorted((a, b) => b.priority - a.priority || a.order - b.order)) {
        const text = shortenLine(line.text, room - 4);
        const key = sameness(text);
        if (key === "" || seen.has(key) || text.length + 3 > left) continue;
        seen.add(key);
        left -= text.length + 3;
        chosen.push({ ...line, text });
      }
      return chosen
        .sort((a, b) => a.order - b.order || b.priority - a.priority)
        .map(({ text }) => `- ${text}`);
    },
  };
}

/** Characters of lines with the line ends. */
export function lengthOf(lines: readonly string[]): number {
  return lines.reduce((length, line) => length + line.length + 1, 0);
}

/** A line cut to a length, with the quotation closed that the cut left open. */
function shortenLine(text: string, maximum: number): string {
  if (text.length <= maximum) return text;
  if (maximum < SHORTEST) return "";
  const cut = shorten(text, maximum - 1);
  return /(?:^|[ (])"[^"]*$/.test(cut) ? `${cut}"` : cut;
}

/** Lines of an earlier summary, the later ones more worth keeping; `worth` is the priority of the last. */
export function inheritedLines(texts: readonly string[], worth: number): Line[] {
  return texts.map((text, index) => ({
    text,
    priority: (worth * (index + 1)) / (texts.length + 1),
    order: index - texts.length,
  }));
}

/** Blocks that the engine writes after a summary's prose, anew each time. */
const APPENDED_TAGS = ["goal", "pinned", "latest-user-message", "read-files", "modified-files"];

/** A summary is far shorter; what is beyond is none. */
const LONGEST_SUMMARY = 200_000;
const MOST_LINES = 1_000;

/** The lines of a summary's prose, without the blocks that stand after it. */
export function proseLines(summary: string): string[] {
  const lines = summary.slice(0, LONGEST_SUMMARY).split("\n");
  const closings = new Map(APPENDED_TAGS.map((tag) => [`<${tag}>`, lines.lastIndexOf(`</${tag}>`)]));
  const prose: string[] = [];
  for (let index = 0; index < lines.length && prose.length < MOST_LINES; index++) {
    const closing = closings.get(lines[index]!.trim()) ?? -1;
    // The last closing tag ends the block: content is escaped and has none.
    if (closing > index) index = closing;
    else prose.push(lines[index]!);
  }
  return prose;
}

/** The words of a line that is a heading: `## Goal`, or `**Goal:**` alone on its line. */
export function headingOf(line: string): string | undefined {
  return /^\s{0,3}#{1,6}\s+(.*)$/.exec(line)?.[1] ?? /^\s*\*\*([^*]{1,60}?):?\*\*:?\s*$/.exec(line)?.[1];
}

/** Text beyond this many characters of one message is not searched for sentences: prose is never that long. */
const SEARCHED = 20_000;

/**
 * The sentences of a message's prose, in order, without list marks, headings' marks and emphasis. Fenced code and table
 * rows are passed over. A line end ends a sentence.
 */
export function splitSentences(text: string): string[] {
  const sentences: string[] = [];
  let fenced = false;
  for (const rawLine of text.slice(0, SEARCHED).split("\n")) {
    if (/^\s*(?:```|~~~)/.test(rawLine)) {
      fenced = !fenced;
      continue;
    }
    if (fenced || /^\s*\|/.test(rawLine) || /^\s*[-=*_]{3,}\s*$/.test(rawLine)) continue;
    const line = plainLine(rawLine);
    if (line === "") continue;
    sentences.push(
      ...line.split(/(?<=[.!?])\s+(?=[\p{Lu}"'“`(\p{Lo}])|(?<=[。！？])/u).map((part) => part.trim()),
    );
  }
  return sentences.filter((sentence) => sentence !== "");
}

/** A line without the marks that make it a heading, a list item, a quotation or emphasis. */
function plainLine(line: string): string {
  return line
    .replace(/^\s*(?:[#>]+\s*|[-*+•]\s+|\d{1,3}[.)]\s+|\[[ xX]\]\s+)*/, "")
    .replace(/(^|[\s(])\*\*([^*\s](?:[^*]*[^*\s])?)\*\*(?=[\s.,:;!?)]|$)/g, "$1$2")
    .replace(/^(?:\p{Extended_Pictographic}\u{fe0f}?|[→➜✓•\s])+/u, "")
    .trim();
}

/** Letters of a sentence without case, marks and spaces, to see whether two say the same. */
export function sameness(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}

/**
 * Foreign words in a summary. Everything that this summarizer did not say itself stands between quotation marks or in a
 * code span, on one line, so that no heading, tag or list item inside it can become part of the summary's structure.
 */

/** Tag names that mean something around a summary; escaped wherever they stand, even glued to a word. */
const STRUCTURAL_TAGS = new Set([
  "summary",
  "goal",
  "pinned",
  "system",
  "user",
  "assistant",
  "human",
  "conversation",
  "transcript",
  "instructions",
  "context",
]);
const ESCAPE_SEQUENCE = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*\u0007?)/g;

/** Controls, line and paragraph separators, and marks that change the direction of what follows. */
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]+/g;

/** One line of well-formed text without controls; `<tag>` that could be taken for structure becomes `&lt;tag>`. */
export function oneLine(text: string): string {
  const line = text
    .replace(ESCAPE_SEQUENCE, "")
    .replace(CONTROLS, " ")
    .replace(/ {2,}/g, " ")
    .trim()
    .toWellFormed();
  return escapeTags(line);
}

/** Leaves generics such as `Map<string>` alone: they follow a word, and their names mean nothing here. */
function escapeTags(text: string): string {
  return text.replace(
    /<(\/?)(?=([A-Za-z][\w:-]*)[\s/>])/g,
    (tag, slash: string, name: string, offset: number) => {
      const afterWord = offset > 0 && /\w/.test(text[offset - 1]!);
      const isPlainGeneric =
        afterWord && slash === "" && !/[-_]/.test(name) && !STRUCTURAL_TAGS.has(name.toLowerCase());
      return isPlainGeneric ? tag : `&lt;${slash}`;
    },
  );
}

/**
 * At most `maximum` UTF-16 units: cut after a sentence where one ends in the second half, else after a word, else
 * between two code points. What was cut ends in an ellipsis.
 */
function shorten(text: string, maximum: number): string {
  if (text.length <= maximum) return text;
  if (maximum <= 2) return "";
  const room = wholeCodePoints(text, maximum - 2);
  let end = -1;
  for (const match of room.matchAll(/[.!?](?=\s)|[。！？]/g)) end = match.index + 1;
  if (end < maximum / 2) end = room.search(/\s\S*$/);
  const cut = (end >= maximum / 2 ? room.slice(0, end) : room).trimEnd();
  return `${closeCodeSpan(cut)}…`;
}

/** A cut inside a code span leaves it open, which would take in what follows. */
function closeCodeSpan(text: string): string {
  return (text.match(/`/g)?.length ?? 0) % 2 === 1 ? `${text}\`` : text;
}

/** The first `length` UTF-16 units, one fewer where that would cut a surrogate pair. */
export function wholeCodePoints(text: string, length: number): string {
  return text.slice(0, splitsPair(text, length) ? length - 1 : length);
}

/** The words as they were said, on one line between quotation marks, at most `maximum` units with the marks. */
export function quote(text: string, maximum: number): string {
  // Cleaning only shortens but for escaped tags; four times the room is enough to look at.
  return `"${shorten(oneLine(wholeCodePoints(text, maximum * 4)), maximum - 2)}"`;
}

/** A code span of one line; backticks inside become apostrophes, which cannot end it. */
export function codeSpan(text: string, maximum: number): string {
  const line = oneLine(wholeCodePoints(text, maximum * 4)).replaceAll("`", "'");
  return `\`${shorten(line, maximum - 2)}\``;
}

/**
 * Words by which people and models mark what kind of sentence they write, in the languages most sessions are held in
 * (English, German, Spanish, French, Portuguese, Italian, Chinese, Japanese, Korean, Russian).
 * They only rank sentences; a session in another language gets its summary from structure alone.
 */

function words(...alternatives: string[]): RegExp {
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${alternatives.join("|")})(?![\\p{L}\\p{N}])`, "iu");
}

const STRONG_RULE_WORDS = words(
  "must(?:n['’]?t)?|never|always|do(?:n['’]?t| not)|only (?:use|the|when|if|on|in|for|with)|prefer(?:s|red)?|instead|without|make sure|ensure|required?|forbidden|avoid|no more|at (?:most|least)",
  "muss|müssen|darf|nie(?:mals)?|immer|nicht|kein(?:e|en|er)?|nur|stattdessen|statt|ohne|bitte keine?|bevorzug\\p{L}*|höchstens|mindestens",
  "debe(?:s|n)?|nunca|siempre|prefiero|sin|en lugar de|solo|sólo|evita|no uses",
  "doit|doivent|jamais|toujours|sans|plutôt|préfér\\p{L}*|au lieu|uniquement|éviter?|ne .{1,20} pas",
  "deve(?:m)?|sempre|não|sem|prefiro|em vez|somente|apenas|evite",
  "mai|senza|preferisco|invece|devono|soltanto",
  "должен|должна|должны|никогда|всегда|нельзя|только|вместо|без|не надо",
);

const STRONG_RULE_CHARACTERS =
  /必须|不要|不能|不得|禁止|总是|务必|只能|优先|必ず|しないで|禁止|ないでください|のみ|반드시|하지 ?마|항상|절대|금지/u;

const WEAK_RULE_WORDS = words(
  "should(?:n['’]?t)?|keep|use|i don['’]?t like|rather|it(?:['’]s| is) important|remember",
  "soll(?:te|ten|en)?|brauch\\p{L}*|verwende\\p{L}*|nutze|behalte|wichtig",
  "usa|necesit\\p{L}*|quiero|importante|il faut|utilise\\p{L}*|veux|precisa|quero|use o|нужно|используй",
);
const WEAK_RULE_CHARACTERS = /应该|需要|使用|请用|べき|使って|해야|사용/u;

/** Degree to which a sentence of the user is a lasting rule: 2 clearly, 1 perhaps, 0 not. */
export function ruleStrength(sentence: string): 0 | 1 | 2 {
  if (STRONG_RULE_WORDS.test(sentence) || STRONG_RULE_CHARACTERS.test(sentence)) return 2;
  return WEAK_RULE_WORDS.test(sentence) || WEAK_RULE_CHARACTERS.test(sentence) ? 1 : 0;
}

const DECISION_WORDS = words(
  "decid\\p{L}*|decision|instead of|rather than|chose|choose|we['’]ll (?:use|go|keep)|i['’]ll use|going with|opt(?:ed|ing) for|agreed|best (?:solution|approach|option)|recommend|trade-?off",
  "entschieden|entscheidung|anstatt|anstelle|stattdessen|empfehle|wir nehmen",
  "decid\\p{L}*|en lugar de|recomiendo|décid\\p{L}*|au lieu de|recommande|em vez de|recomendo|решил\\p{L}*|вместо",
);
const DECISION_CHARACTERS = /决定|改用|而不是|采用|建议|決め|代わりに|결정|대신/u;

const REASON_WORDS = words(
  "because|root cause|the (?:real |actual )?(?:problem|issue|cause|bug|reason) (?:is|was)|turns out|it turned out|the fix|which (?:means|is why)",
  "weil|deshalb|ursache|das problem (?:ist|war)|es stellte sich heraus|porque|la causa|el problema (?:es|era)|parce que|le problème (?:est|était)|o problema (?:é|era)|потому что|причина|проблема в",
);
const REASON_CHARACTERS = /因为|原因|问题是|ため|問題は|때문|문제는/u;

/** Degree to which a sentence is a decision or the cause of a problem. */
export function decisionStrength(sentence: string): 0 | 1 | 2 {
  if (DECISION_WORDS.test(sentence) || DECISION_CHARACTERS.test(sentence)) return 2;
  return REASON_WORDS.test(sentence) || REASON_CHARACTERS.test(sentence) ? 1 : 0;
}

const PLAN_WORDS = words(
  "next(?: step| up)?|remaining|still (?:need|have) to|not yet|open|to ?do|left to do|after that|later|follow-?up|let me|now (?:let['’]s|i['’]ll|update|add|fix|check|run)|i['’]ll|i will|going to|we need to",
  "als nächstes|nächster schritt|danach|offen|noch nicht|jetzt|werde|siguiente|falta|ahora|prochaine étape|ensuite|maintenant|próximo|agora|falta|далее|теперь|осталось",
);
const PLAN_CHARACTERS = /下一步|接下来|还需要|现在|次に|これから|다음|이제/u;

/** True for a sentence that says what comes next. */
export function isPlan(sentence: string): boolean {
  return PLAN_WORDS.test(sentence) || PLAN_CHARACTERS.test(sentence);
}

const RESULT_WORDS = words(
  "added|fixed|removed|updated|created|changed|replaced|renamed|moved|implemented|ported|switched|works|working|passes|passing|now|done|so far",
  "hinzugefügt|behoben|entfernt|aktualisiert|erstellt|geändert|ersetzt|umbenannt|funktioniert|fertig",
  "añadido|corregido|eliminado|creado|cambiado|ajouté|corrigé|supprimé|créé|adicionado|corrigido|removido|criado|добавил\\p{L}*|исправил\\p{L}*|готово",
);
const RESULT_CHARACTERS = /已|完成|修复|添加了|しました|완료|했습니다/u;

/** True for a sentence that reports what was done. */
export function isResult(sentence: string): boolean {
  return RESULT_WORDS.test(sentence) || RESULT_CHARACTERS.test(sentence);
}

/** Messages that only tell the agent to go on; they continue a turn instead of beginning one. */
const CONTINUATIONS =
  /^(?:continue|go on|go ahead|proceed|keep going|next|yes|yeah|yep|ok(?:ay)?|sure|y|please|do it|thanks?|thank you|weiter|mach weiter|ja|sí|si|oui|sim|vai|continúa|continua|продолжай|да|继续|好的?|はい|続けて|계속|네)[\s.!,…]*$/iu;

function isContinuation(text: string): boolean {
  return CONTINUATIONS.test(text.trim());
}

/** Characters of one message that are looked at as the user's words; what is beyond is pasted. */
const LONGEST_MESSAGE = 20_000;

/** Blocks that programs put into a user's message: `<system-reminder>…</system-reminder>`, `<environment_context>…`. */
const OPENING_TAG = /<([a-z]+(?:[-_][a-z]+)+)(?:\s[^<>]{0,200})?>/g;

/** Lines that an agent writes in the user's name, or that steer the agent and ask for nothing. */
const AGENT_LINES =
  /^[ \t]*(?:\[Request interrupted by user[^\]\n]{0,80}\]|\/(?:mode|model|clear|compact|config|cost|context|exit|quit|resume|login|logout|permissions|status|theme|usage|vim|fast|effort|approvals|new)(?:[ \t][^\n]{0,80})?)[ \t]*$/gm;

/** A user's text without the lines that an agent wrote in the user's name and those that only steer the agent. */
export function withoutAgentLines(text: string): string {
  return text.replace(AGENT_LINES, "");
}

/** Text of the user, without what programs added to it; empty when nothing of it is the user's. */
export function userWords(message: UserMessage | { content?: unknown }): string {
  let text = "";
  for (const block of contentBlocks(message)) {
    if (block.type === "text" && typeof block.text === "string")
      text += `${text === "" ? "" : "\n"}${block.text}`;
    if (text.length >= LONGEST_MESSAGE) break;
  }
  return withoutAgentLines(withoutInjectedBlocks(text.slice(0, LONGEST_MESSAGE))).trim();
}

function withoutInjectedBlocks(text: string): string {
  let left = "";
  let from = 0;
  for (const match of text.matchAll(OPENING_TAG)) {
    if (match.index < from) continue;
    const closing = `</${match[1]}>`;
    const end = text.indexOf(closing, match.index);
    if (end === -1) continue;
    left += text.slice(from, match.index);
    from = end + closing.length;
  }
  return left + text.slice(from);
}

/** True for words that ask for something, unlike "continue", "ok" or a bare `/command`. */
export function isRequest(words: string): boolean {
  if (words === "" || /^\/\S*$/.test(words) || isContinuation(words)) return false;
  return /\S\s+\S/.test(words) || /[\p{Lo}]{3}/u.test(words) || /[./_]\w/.test(words) || words.length >= 12;
}

/**
 * The lines of a request that are words of a person, without what was pasted between them; all of it where no line is.
 * For places that are too small for the whole.
 */
export function gistOf(words: string): string {
  const lines = words.split("\n").filter((line) => {
    const letters = line.match(/\p{L}/gu)?.length ?? 0;
    return (
      letters / Math.max(line.trim().length, 1) > 0.5 &&
      (/\p{L}\s+\p{L}/u.test(line) || /\p{Lo}{3}/u.test(line)) &&
      !/[{};]\s*$/.test(line)
    );
  });
  return lines.length === 0 ? words : lines.join(" ");
}

const SHORTEST_WORD = 4;
const MOST_WORDS = 100;

/** A test for texts that have a word of the instructions in them; always false without instructions. */
export function focusOn(instructions: string | undefined): (text: string) => boolean {
  const found =
    instructions
      ?.slice(0, 10_000)
      .toLowerCase()
      .match(/[\p{L}\p{N}_]+/gu) ?? [];
  const words = [...new Set(found)]
    .filter((word) => word.length >= SHORTEST_WORD && !COMMON.has(word))
    .slice(0, MOST_WORDS);
  if (words.length === 0) return () => false;
  return (text) => {
    const lower = text.toLowerCase();
    return words.some((word) => lower.includes(word));
  };
}

/** Words that instructions are made of and that say nothing of what they are about. */
const COMMON = new Set(
  "about also attention attend contain context details especially everything focus from include into keep list make only pay please preserve summarise summarize summary that their them these this those what when where which with your".split(
    " ",
  ),
);

/**
 * Keeps the best of what it is shown, in the order it was shown, in memory that does not grow with the session.
 * Among equals the newer one stays.
 */
interface Ranking<Item> {
  add(item: Item, score: number): void;
  /** The kept items, oldest first. */
  items(): Item[];
}

export function createRanking<Item>(capacity: number): Ranking<Item> {
  let kept: { item: Item; score: number; order: number }[] = [];
  let order = 0;

  function best(): typeof kept {
    return kept
      .toSorted((a, b) => b.score - a.score || b.order - a.order)
      .slice(0, capacity)
      .sort((a, b) => a.order - b.order);
  }

  return {
    add(item, score) {
      kept.push({ item, score, order: order++ });
      if (kept.length >= capacity * 2) kept = best();
    },
    items: () => best().map(({ item }) => item),
  };
}
