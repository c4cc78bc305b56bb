import { chatProblems, messagesProblems, responsesProblems } from "@espalier/session-tree/testing";
import { checkAnthropicRequest } from "@espalier/summarizer/testing";
import { KEY } from "./random-answers.ts";
import type { Asked, AskedTurn, Given, Protocol } from "./wire.ts";

/** One sentence for each rule that a request breaks. */
export type Problems = string[];

/** Pixels of a longer side, how many are many, how many at most, and characters of base64 of one. */
const PICTURES = {
  anthropic: { side: 8_000, many: 20, manySide: 2_000, count: 100, bytes: 5_242_880 },
  openai: { side: Infinity, many: Infinity, manySide: Infinity, count: 500, bytes: 20_000_000 },
};

/**
 * What is wrong with a request by the documentation of its provider; none for a request that the provider takes.
 *
 * @param given what the server answered so far
 */
export function problemsOf(
  protocol: Protocol,
  body: Record<string, unknown>,
  asked: Asked,
  given: readonly Given[],
): Problems {
  const problems: Problems = [];
  if (protocol === "anthropic") problems.push(...checkAnthropicRequest(body), ...messagesProblems(body));
  else if (protocol === "chat") problems.push(...chatProblems(body));
  else if (protocol === "responses") problems.push(...responsesProblems(body));
  else problems.push(...pairProblems(asked.turns));
  if (JSON.stringify(body).includes(KEY)) problems.push("A key stands in the request.");
  const isOpenai = protocol === "chat" || protocol === "responses";
  problems.push(...pictureProblems(asked.turns, isOpenai ? PICTURES.openai : PICTURES.anthropic));
  if (protocol !== "chat") problems.push(...thoughtProblems(asked, given));
  return problems;
}

/** Each call has exactly one result, in the turn behind it; the user begins. */
function* pairProblems(turns: readonly AskedTurn[]): Generator<string> {
  if (turns[0]?.role !== "user") yield "messages: the first message must be the user's";
  const ids = new Set<string>();
  for (const [at, { role, calls, results }] of turns.entries()) {
    const owed = role === "user" ? (turns[at - 1]?.calls ?? []) : [];
    if ([...owed].sort().join() !== [...results].sort().join())
      yield `messages.${at}: results ${results.join()} for the calls ${owed.join()}`;
    for (const id of calls) if (ids.size === ids.add(id).size) yield `messages.${at}: two calls ${id}`;
  }
  if ((turns.at(-1)?.calls.length ?? 0) > 0) yield "messages: the last calls have no results";
}

/** The guides to vision; sizes of PNGs, which is all that lives show. */
function* pictureProblems(
  turns: readonly AskedTurn[],
  { side, many, manySide, count, bytes }: (typeof PICTURES)["anthropic"],
): Generator<string> {
  const pictures = turns.flatMap((turn) => turn.pictures);
  if (pictures.length > count) yield `too many images: ${pictures.length} > ${count}`;
  for (const data of pictures) {
    const read = Buffer.from(data, "base64");
    if (read.toString("base64") !== data) yield "image.source.base64: invalid base64 data";
    if (data.length > bytes) yield `image exceeds the maximum: ${data.length} bytes > ${bytes} bytes`;
    const longer = read.length < 24 ? 0 : Math.max(read.readUInt32BE(16), read.readUInt32BE(20));
    if (longer > side) yield `image dimensions exceed max allowed size: ${side} pixels`;
    if (pictures.length > many && longer > manySide)
      yield `image dimensions exceed max allowed size for many-image requests: ${manySide} pixels`;
  }
}

/**
 * Thinking goes back to the model that thought it, letter for letter, all of an answer or none of it; and, in a loop of tools
 * that still runs, all of it ("`thinking` blocks in the latest assistant message cannot be modified"; "a final `assistant`
 * message must start with a thinking block"). An answer in which there was a key cannot: its thinking is nowhere any more.
 */
function* thoughtProblems({ model, turns }: Asked, given: readonly Given[]): Generator<string> {
  const loopFrom = turns.findLastIndex(
    ({ role, hasWords, results }) => role === "user" && hasWords && results.length === 0,
  );
  const isLoop = (turns.at(-1)?.results.length ?? 0) > 0;
  for (const [at, turn] of turns.entries()) {
    const marks = turn.thoughts.map(({ mark }) => mark);
    for (const { mark, text } of turn.thoughts) {
      const owner = given.find(({ thoughts }) => thoughts.some((thought) => thought.mark === mark));
      const thought = owner?.thoughts.find((one) => one.mark === mark);
      if (!owner || !thought) yield `messages.${at}: invalid signature ${mark} in thinking`;
      else if (owner.model !== model) yield `messages.${at}: the thinking ${mark} is of ${owner.model}`;
      else if (!thought.isSealed && thought.text !== text)
        yield `messages.${at}: the thinking ${mark} was changed`;
    }
    for (const answer of given) {
      const own = answer.thoughts.map(({ mark }) => mark);
      const sent = marks.filter((mark) => own.includes(mark));
      const isWhole = sent.join() === own.join();
      if (sent.length > 0 && !isWhole)
        yield `messages.${at}: the thinking of an answer was modified: ${sent}`;
      const isNeeded = isLoop && at > loopFrom && answer.model === model && !holdsKey(answer);
      const isHere = answer.calls.some(({ id }) => turn.calls.includes(id));
      if (isNeeded && isHere && !isWhole)
        yield `messages.${at}: expected the thinking ${own} before its calls ${turn.calls}`;
    }
  }
}

const holdsKey = ({ thoughts }: Given): boolean => thoughts.some(({ text }) => text.includes(KEY));
