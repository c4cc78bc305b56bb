import {
  type ContextMessage,
  isFailedAnswer,
  type ThinkingBlock,
  type ToolResultMessage,
  toolCalls,
} from "../message.ts";
import type { SessionContext } from "../session-context.ts";
import { answerBlocks } from "./answer.ts";
import { createCallIds } from "./call-ids.ts";
import { healedContent } from "./content.ts";
import type { RequestFormat } from "./request-format.ts";
import { saidByUser } from "./said-by-user.ts";
import { pairTools } from "./tool-pairs.ts";
import type { AnswerBlock, HealedResult, Turn, UserTurn } from "./turn.ts";

/** What a tool call is answered with when the session holds no result of it. */
export const NO_RESULT = "No result was recorded.";

/** What a result says that says nothing: providers refuse an error without text. */
export const NO_OUTPUT = "(no output)";

/** What the user says where a conversation begins with an answer. */
export const OPENING = "(start of the conversation)";

/** What healing needs to know of the request: the model it is for and the rules of the format. */
export interface HealOptions
  extends Pick<RequestFormat<unknown>, "callIdLength" | "toolNameLength" | "acceptsThinking"> {
  /** Thinking of other models is left out; null: all of it. */
  model: SessionContext["model"];
}

/**
 * The context as a conversation that every provider accepts, in one pass over what was paired before. Rules, in the
 * words of T7: it begins with a user turn and roles alternate; each call is followed by exactly its results; failed and
 * aborted answers are out with the results of their calls; thinking of the same model is sent untouched, all of an answer,
 * while everything before it is what it was, and in a loop of tools that still runs in any case; else it is left out.
 * Nothing else that was said is lost.
 *
 * Each turn depends on the messages up to it alone, so a growing conversation keeps its beginning byte for byte. Three
 * things change what was sent before: a message that joins the last turn, a result that comes late, and the end of a loop
 * of tools before which something changed.
 */
export function heal(
  context: Pick<SessionContext, "messages" | "prefixChanged">,
  options: HealOptions,
): Turn[] {
  const { messages, prefixChanged } = context;
  const { results, overtaken } = pairTools(messages);
  const callId = createCallIds(options.callIdLength);
  const turns: Turn[] = [];
  const loopFrom = runningLoop(messages);

  for (let index = 0; index < messages.length; index++) {
    const message = messages[index];
    if (!message) continue;
    if (message.role !== "assistant") {
      const said = saidByUser(message);
      if (said.length > 0) append(userTurn(turns).content, said);
      continue;
    }
    if (isFailedAnswer(message)) continue;
    const model = options.model;
    const sendsThinking =
      (prefixChanged[index] === false || index >= loopFrom) &&
      overtaken[index] === 0 &&
      model !== null &&
      message.provider === model.provider &&
      message.model === model.modelId;
    const blocks = answerBlocks(message, {
      callId,
      toolNameLength: options.toolNameLength,
      acceptsThinking: (block: ThinkingBlock) => sendsThinking && options.acceptsThinking(block, message),
    });
    appendAnswer(turns, blocks, results.get(index));
  }
  return turns;
}

/**
 * Index behind which the answers of a loop of tools stand that still runs: behind the last words of the user that do not
 * stand among results. The end of the list where the last answer calls nothing. A provider that thinks asks for the thinking
 * of these answers, whatever was compacted or edited before them ("a final `assistant` message must start with a thinking
 * block").
 */
function runningLoop(messages: readonly ContextMessage[]): number {
  let words = -1;
  let isRunning = false;
  for (let at = messages.length - 1; at >= 0; at--) {
    const message = messages[at];
    if (!message) continue;
    if (message.role !== "assistant") {
      if (words < 0 && saidByUser(message).length > 0) words = at;
    } else if (!isFailedAnswer(message)) {
      if (toolCalls(message).length > 0) {
        isRunning = true;
        words = -1;
      } else if (!isRunning || words >= 0) break;
    }
  }
  return isRunning ? words + 1 : messages.length;
}

function appendAnswer(
  turns: Turn[],
  blocks: AnswerBlock[],
  recorded: (ToolResultMessage | undefined)[] = [],
): void {
  if (blocks.length === 0) return;
  if (turns.length === 0) userTurn(turns).content.push({ type: "text", text: OPENING });
  const last = turns.at(-1);
  if (last?.role === "assistant") append(last.content, blocks);
  else turns.push({ role: "assistant", content: blocks });

  let position = 0;
  for (const block of blocks) {
    if (block.type === "call") userTurn(turns).results.push(healedResult(block.id, recorded[position++]));
  }
}

function healedResult(callId: string, recorded: ToolResultMessage | undefined): HealedResult {
  if (!recorded) return { callId, isError: true, content: [{ type: "text", text: NO_RESULT }] };
  const content = healedContent(recorded);
  return {
    callId,
    isError: recorded.isError === true,
    content: content.length > 0 ? content : [{ type: "text", text: NO_OUTPUT }],
  };
}

/** The user turn at the end, begun if the last turn is an answer. */
function userTurn(turns: Turn[]): UserTurn {
  const last = turns.at(-1);
  if (last?.role === "user") return last;
  const turn: UserTurn = { role: "user", results: [], content: [] };
  turns.push(turn);
  return turn;
}

/** Without spreading into a call: lists of blocks can be longer than a call stack. */
function append<Block>(list: Block[], added: readonly Block[]): void {
  for (const block of added) list.push(block);
}
