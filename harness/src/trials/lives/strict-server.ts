import { json } from "node:stream/consumers";
import { startOpenaiServer } from "@espalier/engine/testing";
import {
  checkAnthropicRequest,
  type LoopbackServer,
  startLoopbackServer,
} from "@espalier/session-tree/testing";
import { errorReply, startMessagesServer } from "@espalier/summarizer/testing";
import type { SeededRandom } from "../../harness.ts";
import {
  type Answer,
  type Asked,
  type AskedTurn,
  anthropicReply,
  askedBy,
  type Given,
  gatewayReply,
  type Protocol,
  type Thought,
} from "./wire.ts";

/** A server that refuses requests by the documentation of its provider. */
export interface StrictServer extends LoopbackServer {
  /** The answer to the next request. */
  next: Answer;
  /** Requests that came. */
  asked: number;
}

/** Starts a server on a free port of 127.0.0.1. It keeps its answers, to recognize its own thoughts. */
export async function startStrictServer(protocol: Protocol): Promise<StrictServer> {
  const given: Given[] = [];
  const next: Answer = { thoughts: [], text: "Ready.", calls: [], isCutOff: false };
  /** Returns the answer to a request, or a sentence with the rules that it breaks. */
  const answer = (body: Record<string, unknown>, model?: string): Given | string => {
    strict.asked += 1;
    const asked = askedBy(protocol, body, model);
    const problems = problemsOf(protocol, body, asked, given);
    if (problems.length > 0) return problems.slice(0, 5).join("; ");
    given.push({ ...strict.next, model: asked.model });
    return given.at(-1)!;
  };
  const server = await startServer(protocol, answer);
  const strict: StrictServer = Object.assign(server, { next, asked: 0 });
  return strict;
}

function startServer(
  protocol: Protocol,
  answer: (body: Record<string, unknown>, model?: string) => Given | string,
): Promise<LoopbackServer> {
  if (protocol === "ai-sdk") return startGateway(answer);
  if (protocol === "anthropic")
    return startMessagesServer({
      check: false,
      reply({ body }) {
        const given = answer(body);
        return typeof given === "string" ? errorReply(400, given) : anthropicReply(given);
      },
    });
  return startOpenaiServer(({ body }) => {
    const given = answer(body);
    return typeof given === "string" ? { status: 400, message: given } : given;
  });
}

/** Starts a server for the gateway of the AI SDK. */
const startGateway = (answer: (body: Record<string, unknown>, model: string) => Given | string) =>
  startLoopbackServer(async (incoming, response) => {
    const body = (await json(incoming)) as Record<string, unknown>;
    const given = answer(body, String(incoming.headers["ai-language-model-id"]));
    const [status, reply] =
      typeof given === "string"
        ? [400, { error: { type: "invalid_request_error", message: given, code: null } }]
        : [200, gatewayReply(given)];
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(reply));
  });

/**
 * Limits: pixels of the longer side, the number from which images are many, their count, and characters of base64 of
 * one.
 */
const PICTURES = {
  anthropic: { side: 8_000, many: 20, manySide: 2_000, count: 100, bytes: 5_242_880 },
  openai: { side: Infinity, many: Infinity, manySide: Infinity, count: 500, bytes: 20_000_000 },
};

/**
 * Lists the rules of its provider that a request breaks.
 *
 * @param given the answers of the server so far
 */
function problemsOf(
  protocol: Protocol,
  body: Record<string, unknown>,
  asked: Asked,
  given: readonly Given[],
): string[] {
  const isOpenai = protocol === "chat" || protocol === "responses";
  return [
    // The server of OpenAI's APIs checks its own.
    ...(protocol === "anthropic" ? checkAnthropicRequest(body, { strict: true }) : []),
    ...(protocol === "ai-sdk" ? pairProblems(asked.turns) : []),
    ...(JSON.stringify(body).includes(KEY) ? ["A key is in the request."] : []),
    ...pictureProblems(asked.turns, isOpenai ? PICTURES.openai : PICTURES.anthropic),
    ...(protocol === "chat" ? [] : thoughtProblems(asked, given)),
  ];
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

/** Rules of the guides to vision; sizes of PNGs only, since lives show no others. */
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
 * message must start with a thinking block"). An answer with a key cannot: its thinking was not kept.
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

/** A key as a model may repeat one in its thoughts; in pieces, so that no scanner takes it for a real one. */
export const KEY = ["sk", "ant", "api03", "a1B2".repeat(24)].join("-");

const WORDS =
  "pears apples beans worms rain soil seeds roots leaves the a of and grow ripe dig water ä 数据 🌱".split(
    " ",
  );

/** Returns so many words. */
export const prose = (random: SeededRandom, count: number): string =>
  Array.from({ length: count }, () => random.pick(WORDS)).join(" ");

/** The header of a PNG of this size, and bytes without an image. */
function png(width: number, height: number, bytes = 33): string {
  const data = Buffer.alloc(bytes);
  Buffer.from("89504e470d0a1a0a0000000d49484452", "hex").copy(data);
  data.writeUInt32BE(width, 16);
  data.writeUInt32BE(height, 20);
  return data.toString("base64");
}

/** An image, mostly one that providers accept. */
export function picture(random: SeededRandom): { type: "image"; data: string; mimeType: string } {
  const kind = random.below(40);
  const of = (data: string, mimeType = "image/png") => ({ type: "image" as const, data, mimeType });
  if (kind === 0) return of(png(9_000, 20));
  if (kind === 1) return of("this is no base64!");
  if (kind === 2) return of("SUkqAA==", "image/tiff");
  if (kind === 3) return of(png(40, 40).replace(/=+$/, ""));
  if (kind === 4) return of(png(40, 40, 34), "image/jpeg");
  if (kind === 5) return of(png(40, 40, 4_000_000));
  return of(kind < 16 ? png(2_400, 1_000) : png(100, 100));
}

/** An answer of a model: thoughts, words, calls, in every mixture. */
export function randomAnswer(random: SeededRandom, n: number, tools: readonly string[]): Answer {
  const kind = random.below(10);
  const calls =
    kind < 5
      ? Array.from({ length: 1 + (random.below(3) === 0 ? random.below(3) : 0) }, (_, at) => ({
          // Longer than some providers take.
          id: `call_${n}_${at}${random.below(10) === 0 ? "x".repeat(60) : ""}`,
          name: random.pick(tools),
          input: { what: prose(random, 3) },
        }))
      : [];
  const thoughts = Array.from({ length: random.below(4) }, (_, at): Thought => {
    const isSealed = random.below(5) === 0;
    const key = random.below(8) === 0 ? ` with ${KEY}` : "";
    return { text: isSealed ? "" : `${prose(random, 8)}${key}`, mark: `mark-${n}-${at}==`, isSealed };
  });
  const text = calls.length === 0 || random.below(2) === 0 ? prose(random, 1 + random.below(120)) : "";
  return { thoughts, text, calls, isCutOff: calls.length === 0 && random.below(20) === 0 };
}
