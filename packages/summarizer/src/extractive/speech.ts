import { type ContextMessage, contentBlocks, messageText, type UserMessage } from "@espalier/session-tree";
import { findRules } from "../rule-finder.ts";
import { replaceElements } from "../transcript.ts";
import { endsSentence, isNegated } from "./text.ts";

/** Maximum number of characters of one message that are searched for sentences: prose is shorter. */
const SEARCHED = 20_000;

/**
 * Returns the sentences of a message's prose, in order, without marks of lists, headings and emphasis. Fenced code and
 * table rows are left out. The end of a line ends a sentence.
 */
export const splitSentences = (text: string): string[] => proseLines(text).flatMap(sentencesOf);

/** Returns the sentences that a writer ended: not headings, labels and items of lists like "Option 1: Use a queue". */
export const wholeSentences = (text: string): string[] =>
  proseLines(text, true)
    .flatMap(sentencesOf)
    .filter((sentence) => /[.!。！…]['"”’)\]`*]*$/u.test(sentence) || /\p{Lo}{4}/u.test(sentence));

const sentencesOf = (line: string) =>
  line
    .split(/(?<=[.!?])\s+(?=[\p{Lu}"'“`(\p{Lo}])|(?<=[。！？])/u)
    .map((part) => part.trim())
    .filter((sentence) => sentence !== "");

/** A ruled line, with or without a title, such as a frame around a text of an agent: "★ Insight ─────". */
const RULE = /^\s*[-=*_]{3,}\s*$|[─━═]{5,}/;

/** A heading, or a line that is only emphasized. */
const HEADING = /^\s*(?:#{1,6}\s|(?:[-*+•]\s+|\d{1,3}[.)]\s+)?\*\*[^*]+\*\*[\s:：]*$)/;

/**
 * Returns the lines of a message's prose, optionally without headings. A heading that negates something ("Not covered")
 * becomes the beginning of the line after it: without it, that line would say the opposite.
 */
function proseLines(text: string, withoutHeadings = false): string[] {
  const lines: string[] = [];
  let fenced = false;
  let heading = "";
  for (const rawLine of text.slice(0, SEARCHED).split("\n")) {
    if (/^\s*(?:```|~~~)/.test(rawLine)) {
      fenced = !fenced;
      continue;
    }
    if (fenced || /^\s*\|/.test(rawLine) || RULE.test(rawLine)) continue;
    const line = plainLine(rawLine);
    if (line === "") continue;
    if (heading !== "") {
      if (!HEADING.test(rawLine)) {
        lines.push(`${heading.replace(/[\s:：]+$/, "")}: ${line}`);
        heading = "";
        continue;
      }
      if (!withoutHeadings) lines.push(heading);
      heading = "";
    }
    if (!HEADING.test(rawLine)) lines.push(line);
    else if (isNegated(line) && !endsSentence(line)) heading = line;
    else if (!withoutHeadings) lines.push(line);
  }
  if (heading !== "" && !withoutHeadings) lines.push(heading);
  return lines;
}

/** Returns a line without the marks of a heading, a list item, a quotation or emphasis. */
function plainLine(line: string): string {
  return line
    .replace(/^\s*(?:[#>]+\s*|[-*+•]\s+|\d{1,3}[.)]\s+|\[[ xX]\]\s+)*/, "")
    .replace(/(^|[\s(])\*\*([^*\s](?:[^*]*[^*\s])?)\*\*(?=[\s.,:;!?)]|$)/g, "$1$2")
    .replace(/^(?:\p{Extended_Pictographic}\u{fe0f}?|[→➜✓•\s])+/u, "")
    .trim();
}

const LONGEST_SENTENCE = 400;

/**
 * Returns whether a sentence is prose of 6 to 400 characters, which can be quoted, not a pasted line of code or of a
 * log.
 */
export function isRepeatable(sentence: string): boolean {
  if (sentence.length < 6 || sentence.length > LONGEST_SENTENCE) return false;
  const letters = sentence.match(/\p{L}/gu)?.length ?? 0;
  return letters / sentence.length > 0.6 && !/[{};]\s*$/.test(sentence);
}

/**
 * Returns a test for words that mark a kind of sentence. The words only affect the ranking; in other languages a
 * summary depends on structure and the length of words alone.
 */
function marks(words: string, characters: string): (sentence: string) => boolean {
  const word = new RegExp(`(?<![\\p{L}\\p{N}])(?:${words})(?![\\p{L}\\p{N}])`, "iu");
  const character = new RegExp(characters, "u");
  return (sentence) => word.test(sentence) || character.test(sentence);
}

/** Words of a rule in languages that {@link findRules} does not read. */
const isRuleElsewhere = marks(
  "muss|müssen|darf|nie(?:mals)?|immer|ab jetzt|ab sofort|künftig|unverändert|durchgehend|nunca|siempre|evita|a partir de ahora|de ahora en adelante|jamais|toujours|désormais|dorénavant|évite[zr]?|il faut|uniquement|(?<=^|[.,:;!] ?)ne \\p{L}+ (?:pas|plus|rien)|sempre|evite|a partir de agora|no máximo|não (?:pode|deve)|никогда|всегда|нельзя|только|не (?:больше|более)|ни в коем случае|обязательно",
  "必ず|ないで(?:ください|下さい|[ね。])|絶対に|統一し|禁止|のみ|أبد[اًا]|دائم[اًا]|ممنوع|من الآن فصاعد",
);

/** Returns the clauses of the user's own words that restrict later work. */
export function rulesOf(words: string): string[] {
  const found = findRules(words).map(({ text }) => text);
  if (found.length > 0) return found;
  return splitSentences(words).filter(
    (sentence) => isRepeatable(sentence) && !/[?？]$/.test(sentence) && isRuleElsewhere(sentence),
  );
}

/** Returns whether a sentence has a choice, a rejection or a reason. */
export const isReason = marks(
  "decid\\p{L}*|decision|instead|rather|cho(?:se|ose)|i['’]ll use|going with|opt(?:ed|ing) for|agreed|best (?:solution|approach|option)|trade-?off|rejected|overkill|risky|because|since|so that|root|causes?|caused|(?:problem|issue|bug|reason|fix) (?:is|was)|turns out|turned out|means|which is why|due to|no longer|entschieden|anstatt|stattdessen|weil|deshalb|ursache|porque|causa|parce que|вместо|потому что|причина",
  "决定|改用|而不是|采用|建议|因为|原因|所以|问题是|导致|決め|代わりに|ため|問題は|결정|대신|때문|문제는|원인|그래서",
);

/** Returns whether a sentence reports a change or a finding. */
const isResult = marks(
  "added|fix(?:ed|es)?|removed?|updated|created|changed|replaced|renamed|moved|implemented|switched|works?|working|pass(?:es|ed|ing)?|fail(?:s|ed)?|found|now|done|so far|hinzugefügt|behoben|entfernt|erstellt|geändert|funktioniert|fertig|añadido|corregido|creado|ajouté|corrigé|créé|corrigido|removido|criado|готово",
  "已|完成|修复|通过|失败|发现|添加了|しました|완료|했습니다|됩니다|통과|실패|수정|추가",
);

/** Returns whether a sentence announces the next step. */
export const isPlan = marks(
  "next(?: step| up)?|remaining|still (?:need|have) to|not yet|open|to ?do|left to do|after that|later|follow-?up|let me|now (?:let['’]s|i['’]ll|update|add|fix|check|run)|i['’]ll|i will|going to|we need to|als nächstes|danach|offen|noch nicht|werde|siguiente|falta|ahora|ensuite|próximo|agora|далее|теперь|осталось",
  "下一步|接下来|还需要|现在|次に|これから|다음|이제|남은",
);

/** Sentences that only announce that the agent will look at something. */
const ANNOUNCEMENTS =
  /^(?:(?:now|first|next|ok(?:ay)?|alright|so|then|good|great|perfect|also|and)[,!.:]?\s+)*(?:let me|let['’]s|i['’]ll|i will|i need to|i should)\s+(?:(?:also|first|now|quickly|just|then)\s+)*(?:look|check|see|read|view|find|search|grep|run|verify|inspect|examine|explore|investigate|test|try|get|take|double-check|confirm|open|list|understand|analy[sz]e|review|fetch|pull)\b|^(?:现在|先|接下来|下面)?(?:让我|我)(?:先|再|来|去)*(?:看|查|检查|读|确认|找)|(?:확인|살펴|읽어|찾아)(?:해\s*)?\s*보겠습니다[.]?$/iu;

/** Announcement of a change, without a reason: "Now let me add the command." */
const ANNOUNCED_CHANGE =
  /^(?:(?:now|first|next|ok(?:ay)?|then|good|great|perfect|also|and)[,!.:]?\s+)*let me\s+(?!.*\b(?:because|since|so that|instead|rather)\b)/i;

/** Returns whether a sentence only announces that the agent will look at something, or change it. */
export const isAnnouncement = (sentence: string): boolean =>
  ANNOUNCEMENTS.test(sentence) || ANNOUNCED_CHANGE.test(sentence);

/** Beginning or end of a sentence that says what comes next: "Let me update the test, then run it:". */
const COMES_NEXT = /^(?:\w+[,!.]?\s+){0,2}(?:let me|let['’]s|i['’]ll|i will)\b|[:：]$/i;

/** Returns whether a text says what was found or done, and not only what comes next. */
export const saysFinding = (text: string): boolean =>
  conclusionsOf(text, 3).some(
    (sentence) => !COMES_NEXT.test(sentence) && (isReason(sentence) || isResult(sentence)),
  );

const FILLERS =
  /^(?:perfect|great|excellent|done|sure|ok(?:ay)?|got it|you['’]re (?:absolutely )?right|ah|yes|no|i see|all set|fixed)\b[^.!:]{0,24}[.!]?$/i;

/** Returns the sentences of an answer that state the result of the work, in their order, at most `count`. */
export function conclusionsOf(text: string, count: number): string[] {
  const sentences = splitSentences(text)
    .slice(0, 60)
    .filter(
      (sentence) =>
        sentence.length >= 12 &&
        sentence.length <= LONGEST_SENTENCE &&
        !FILLERS.test(sentence) &&
        !isAnnouncement(sentence),
    );
  const worth = (sentence: string, index: number) =>
    (isReason(sentence) ? 1 : 0) +
    (isResult(sentence) ? 0.8 : 0) -
    (/[:：?？]$/.test(sentence) ? 1 : 0) -
    index / 40;
  return sentences
    .map((sentence, index) => ({ sentence, index, worth: worth(sentence, index) }))
    .sort((a, b) => b.worth - a.worth)
    .slice(0, count)
    .sort((a, b) => a.index - b.index)
    .map(({ sentence }) => sentence);
}

/** Messages that only tell the agent to continue; they do not begin a turn. */
const CONTINUATIONS =
  /^(?:(?:continue|go on|go ahead|proceed|keep going|next|yes|yeah|yep|ok(?:ay)?|sure|y|please|do it|thanks?|thank you|weiter|mach weiter|ja|sí|si|oui|sim|vai|vas-y|sigue|segue|continúa|continua|продолжай|да|继续|好的?|はい|続けて(?:ください)?|계속(?:해 ?(?:줘|주세요))?|네|أكمل)(?:[\s.!,…、，。]+|$))+$/iu;

/** Maximum number of characters of one message that count as the user's words; the rest is pasted text. */
const LONGEST_MESSAGE = 20_000;

/** Blocks that programs put into a user's message: `<system-reminder>…</system-reminder>`, `<environment_context>…`. */
const OPENING_TAG = /<([a-z]+(?:[-_][a-z]+)+)(?:\s[^<>]{0,200})?>/g;

/**
 * Lines in the role of the user that request nothing: those that an agent writes, such as the line after a
 * notification of Claude Code about an ended task, and commands that control the agent.
 */
const AGENT_LINES =
  /^[ \t]*(?:\[Request interrupted by user[^\]\n]{0,80}\]|(?:Read the output file to retrieve the result|Full transcript available at): [^\n]{1,400}|\/(?:mode|model|clear|compact|config|cost|context|exit|quit|resume|login|logout|permissions|status|theme|usage|vim|fast|effort|approvals|new)(?:[ \t][^\n]{0,80})?)[ \t]*$/gm;

/** Returns a user's text without the lines of an agent and those that only control the agent. */
export function withoutAgentLines(text: string): string {
  return text.replace(AGENT_LINES, "");
}

/** Returns the text of the user, without additions of programs; empty when the user wrote none of it. */
export function userWords(message: UserMessage | { content?: unknown }): string {
  let text = "";
  for (const block of contentBlocks(message)) {
    if (block.type === "text" && typeof block.text === "string")
      text += `${text === "" ? "" : "\n"}${block.text}`;
    if (text.length >= LONGEST_MESSAGE) break;
  }
  return withoutAgentLines(replaceElements(text.slice(0, LONGEST_MESSAGE), OPENING_TAG, () => "")).trim();
}

/** Elements in which Claude Code records a command of the user and its output. */
const COMMAND = /<(command-name|local-command-stdout)>([\s\S]*?)<\/\1>/;

/**
 * Returns the command in a message without words of the user, such as "/exit", else the output of a command; undefined
 * without either.
 */
export function commandOf(message: UserMessage): string | undefined {
  const text = messageText(message).slice(0, LONGEST_MESSAGE);
  const command = COMMAND.exec(text)?.[2] ?? text.match(AGENT_LINES)?.[0];
  return command?.trim() || undefined;
}

/** Returns whether words request something, unlike "continue", "ok" or a bare `/command`. */
export function isRequest(words: string): boolean {
  if (words === "" || /^\/\S*$/.test(words) || CONTINUATIONS.test(words)) return false;
  return /\S\s+\S/.test(words) || /[\p{Lo}]{3}/u.test(words) || /[./_]\w/.test(words) || words.length >= 12;
}

/** Reply that only names one of the options that the agent listed: `2`, `option b`, `1번`, `选3`. */
const CHOICE = /^(?:option |number |nr\.? |#|选择?|第)?\s*([1-9]\d?|[a-h])\s*(?:[.)!]|번(?:으로)?|号|个)?$/iu;

/** Returns a reply that names an option of an answer, with the first words of the option. */
export function withOption(words: string, answer: string): string {
  const choice = CHOICE.exec(words)?.[1];
  if (choice === undefined) return words;
  const option = new RegExp(`^[\\s#*-]*(?:option|选项|방법|옵션)?\\s*${choice}\\s*[.):：、].*\\S.*$`, "gimu");
  const chosen = answer.match(option)?.at(-1);
  return chosen === undefined ? words : `${words} (${plainLine(chosen).replaceAll("**", "").slice(0, 160)})`;
}

/** Maximum length of a user's text that is a reply to a question. */
const LONGEST_REPLY = 80;

/** Returns the question to which a text is a short reply: it is in the last three sentences of the answer before. */
export function questionBefore(said: string, answer: string): string | undefined {
  if (said.length > LONGEST_REPLY) return undefined;
  return splitSentences(answer.slice(-2_000))
    .slice(-3)
    .findLast((sentence) => sentence.length >= 8 && /[?？]$/.test(sentence));
}

/** Returns the words of the newest request among messages; undefined when they have none, or only one to continue. */
export function newestRequest(messages: readonly ContextMessage[]): string | undefined {
  for (const message of messages.toReversed()) {
    const words = message.role === "user" ? userWords(message) : "";
    if (isRequest(words)) return words;
  }
  return undefined;
}

/** Returns a request with the person's own lines first and pasted lines last, and an ellipsis where a line is elsewhere. */
export function ownLinesFirst(words: string): string {
  const lines = words.split("\n").filter((line) => line.trim() !== "");
  const isOwn = (line: string) => {
    const letters = line.match(/\p{L}/gu)?.length ?? 0;
    return (
      letters / Math.max(line.trim().length, 1) > 0.5 &&
      (/\p{L}\s+\p{L}/u.test(line) || /\p{Lo}{3}/u.test(line)) &&
      !/[{};]\s*$/.test(line)
    );
  };
  const order = [...lines.keys()].sort((a, b) => Number(!isOwn(lines[a]!)) - Number(!isOwn(lines[b]!)));
  return order
    .map((at, place) => (at === (order[place - 1] ?? -1) + 1 ? lines[at]! : `… ${lines[at]!}`))
    .join("\n");
}

const SHORTEST_WORD = 4;
const MOST_WORDS = 100;

/** Returns a test for texts with a word of the instructions; always false without instructions. */
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
  // A word may have an ending, but may not be followed by a further digit.
  const mentioned = new RegExp(`(?:${words.join("|")})(?!\\d)`, "i");
  return (text) => mentioned.test(text);
}

/** Words of instructions that do not name a topic. */
const COMMON = new Set(
  "about also attention attend contain context details especially everything focus from include into keep list make only pay please preserve summarise summarize summary that their them these this those what when where which with your".split(
    " ",
  ),
);
