import { isDeepStrictEqual } from "node:util";
import { fromAiSdk, plainJson } from "@espalier/interop";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type AssistantMessage,
  contentText,
  createId,
  custom,
  type Entry,
  isRecord,
  leaf,
  message,
  type NewEntry,
  Redactor,
  redactMessage,
  redactText,
  type StoredMessage,
} from "@espalier/session-tree";
import type { ModelMessage, ToolSet, UIMessage } from "ai";
import { type AiSdkParams, loadAiSdk } from "../providers/ai-sdk.ts";
import { sentEntry } from "../session/replay.ts";
import type { Session } from "../session/session.ts";
import { nextRequest } from "../turn/ask.ts";
import type { Provider } from "../turn/provider.ts";
import { isAnswered, TurnLog } from "../turn/turn.ts";
import {
  approvalOf,
  isFinal,
  isSaid,
  isTool,
  keyOf,
  newestEnd,
  type Part,
  type PlainMessage,
  patchBetween,
  type SaidMessage,
  saidOn,
  take,
  UI,
  type UiPatch,
  uiMessages,
} from "./ui-messages.ts";

/** Options of {@link uiTurn}. */
export interface UiTurnOptions {
  /** Aborts the answer; the part received so far is saved. */
  signal?: AbortSignal;
  /** Tools that you pass to the SDK; their `toModelOutput` defines the model's form of a result. */
  tools?: ToolSet;
}

/** One answer by the AI SDK, with as many steps as its tools need. Made by {@link uiTurn}. */
export interface UiTurn<Message extends UIMessage = UIMessage> {
  /** Options for `streamText` or `generateText`, together with your `tools` and `stopWhen`. */
  request: Omit<AiSdkParams, "tools"> & {
    abortSignal?: AbortSignal;
    /**
     * Records the previous step, compacts if that is due, and sets the messages of the step. If you have your own
     * `prepareStep`, call this one in it.
     */
    prepareStep(step: { messages: ModelMessage[] }): Promise<{ messages?: ModelMessage[]; system?: string }>;
    /** Records the step and its usage. If you have your own `onStepFinish`, call this one in it. */
    onStepFinish(step: {
      response: { messages: ModelMessage[] };
      usage: unknown;
      finishReason: unknown;
    }): Promise<void>;
    /** Resolves `saved` if `response` is not used. If you have your own `onFinish`, call this one in it. */
    onFinish(): void;
  };
  /** Options for `toUIMessageStream`, `toUIMessageStreamResponse` or `pipeUIMessageStreamToResponse`. */
  response: {
    originalMessages: Message[];
    /** Returns the id under which the answer is recorded. */
    generateMessageId(): string;
    /** Saves data that only the page has: metadata, data, sources, and an aborted answer. */
    onFinish(answer: { responseMessage: Message; isAborted: boolean }): Promise<void>;
  };
  /**
   * Resolves when `response` was streamed and saved; without `response`, when the last step was recorded. Rejects when a
   * step or the answer could not be recorded: the SDK ignores this error, which is also logged. Without `response`, an
   * error of the provider or an abort leaves it pending: do not wait after `generateText` has thrown.
   */
  saved: Promise<void>;
}

/**
 * Prepares an answer to the messages at the leaf. The SDK itself makes the answer:
 *
 * ```ts
 * await receiveUiMessages(session, body.messages);
 * const turn = await uiTurn(session, provider, { tools });
 * const result = streamText({ ...turn.request, tools, stopWhen: stepCountIs(20) });
 * return result.toUIMessageStreamResponse(turn.response);
 * ```
 *
 * Each step is in the log before the next one begins, so that a process that ends in the middle loses no call and no
 * result. Approved calls are run by the SDK. `generateText` and agents take `request` too, without `response`.
 *
 * @throws EspalierError `empty-context` when there is nothing to answer; errors of `Session.next`
 */
export async function uiTurn<Message extends UIMessage = UIMessage>(
  session: Session,
  provider: Provider<AiSdkParams>,
  { signal, tools = {} }: UiTurnOptions = {},
): Promise<UiTurn<Message>> {
  const log = new TurnLog(session);
  const options = { log, ...(signal ? { signal } : {}) };
  const first = await nextRequest(session, provider, options);
  const { tools: _tools, ...sent } = first.params;
  const originalMessages = await uiMessages<Message>(session);
  const last = originalMessages.at(-1);
  const messageId = last?.role === "assistant" ? last.id : createId();
  let isBegun = last?.role === "assistant";
  let recorded = 0;
  let failure: unknown;
  let hasPage = false;

  const record = async (messages: readonly ModelMessage[], step?: Step): Promise<void> => {
    const fresh = messages.slice(recorded);
    recorded = Math.max(recorded, messages.length);
    const drafts: NewEntry[] = [];
    for (const one of fromAiSdk(fresh, { model: provider, timestamp: Date.now() }).messages) {
      const isAnswer = one.role === "assistant";
      const bill = isAnswer && step ? await billOf(provider, step, fresh) : {};
      const isFirst = isAnswer && !isBegun;
      isBegun ||= isAnswer;
      // After the answer of a turn that ran at the same time, this one would become a part of it.
      const isMore = isFirst && session.context.messages.at(-1)?.role === "assistant";
      const said = { ...one, ...bill, ...(isMore ? { ui: { id: messageId } } : {}) } as StoredMessage;
      drafts.push({ ...message.of({ message: said }), ...(isFirst ? { id: messageId } : {}) });
    }
    await log.append(drafts);
  };
  const saved = { resolve: () => {}, reject: (_error: unknown) => {} };
  const saving = new Promise<void>((resolve, reject) => Object.assign(saved, { resolve, reject }));
  const fail = (error: unknown) => {
    failure ??= error;
    const reason = error instanceof Error ? error.message : String(error);
    session.logger.error(`An answer was not recorded: ${reason}`, { error });
    saved.reject(error);
  };
  // A caller that does not wait finds the error in the log.
  saving.catch(() => undefined);
  const savePage = async (responseMessage: Message): Promise<void> => {
    if (failure !== undefined) return;
    const isEmpty = responseMessage.parts.every(({ type }) => type === "step-start");
    const end = [...(last && last.id !== messageId ? [last] : []), responseMessage];
    if (!isEmpty) await saveUiMessages(session, end, { tools, model: provider });
    saved.resolve();
  };

  return {
    request: {
      ...sent,
      ...(signal ? { abortSignal: signal } : {}),
      async prepareStep({ messages: shown }) {
        if (failure !== undefined) throw failure;
        await record(shown.slice(sent.messages.length));
        if (isAnswered(session.context.messages)) return {};
        const { params } = recorded === 0 ? first : await nextRequest(session, provider, options);
        await log.append([sentEntry(session.leafId, provider.modelId)], "fsync");
        const { messages, system } = params;
        return { messages, ...(system === undefined ? {} : { system }) };
      },
      onStepFinish: (step) => record(step.response.messages, step).catch(fail),
      onFinish() {
        if (!hasPage) saved.resolve();
      },
    },
    response: {
      originalMessages,
      generateMessageId: () => messageId,
      // The SDK reads this when a page is given, which is before the answer ends.
      get onFinish() {
        hasPage = true;
        return ({ responseMessage }: { responseMessage: Message }) => savePage(responseMessage).catch(fail);
      },
    },
    saved: saving,
  };
}

/** The recorded part of a step of the SDK. */
type Step = Parameters<UiTurn["request"]["onStepFinish"]>[0];

/** Returns usage and end of a step's answer, as the provider value reads them. */
async function billOf(
  provider: Provider<AiSdkParams>,
  { usage, finishReason }: Step,
  messages: readonly ModelMessage[],
): Promise<Partial<AssistantMessage>> {
  for await (const event of provider.read({ response: { messages }, usage, finishReason }))
    if (event.type === "answer") {
      const { usage: billed, stopReason, errorMessage } = event.message;
      return {
        ...(billed ? { usage: billed } : {}),
        stopReason,
        ...(errorMessage === undefined ? {} : { errorMessage }),
      };
    }
  return {};
}

/** Options of {@link saveUiMessages}. */
export interface SaveUiOptions {
  /**
   * Tools whose `toModelOutput` defines the model's form of a result. Default: none; the model reads the output itself.
   */
  tools?: ToolSet;
  /** Model of the answers. Default: the session's current one. */
  model?: { provider: string; modelId: string };
}

/**
 * Saves UI messages on the leaf's path, and returns the path; for the `saveChat` of the AI SDK's documentation.
 * Messages are matched by their ids. Messages on the path stay; new messages are appended; an answer that grew gets its
 * new parts; a last message whose content changed becomes a branch next to its old version. If the path has messages
 * after the last one of the list, the leaf moves back to that one. Nothing is lost: {@link uiVersions} has the other
 * versions.
 *
 * The list may begin in the middle of the conversation: messages before the last one that the path has are not
 * compared, and a list without any message of the path is appended.
 *
 * @throws EspalierError `moved` when the leaf was moved meanwhile; `bad-input` for a value that is not a list of UI
 *   messages; errors of `append`
 */
export async function saveUiMessages<Message extends UIMessage>(
  session: Session,
  messages: readonly Message[],
  options: SaveUiOptions = {},
): Promise<Message[]> {
  if (!Array.isArray(messages) || !messages.every(isUiMessage))
    throw new EspalierError(
      "bad-input",
      "These are not UI messages: each has an id, a role (user, assistant or system) and parts; save the `messages` of the AI SDK.",
    );
  return save<Message>(session, messages, options, false);
}

function isUiMessage(given: unknown): boolean {
  if (!isRecord(given)) return false;
  const { id, role, parts } = given;
  if (typeof id !== "string" || (role !== "user" && role !== "assistant" && role !== "system")) return false;
  return Array.isArray(parts) && parts.every((part) => isRecord(part) && typeof part["type"] === "string");
}

/**
 * Saves messages from a client: the whole list of `useChat`, or its last messages. They are saved as
 * {@link saveUiMessages} does, but only messages of the user, responses to approvals, and outputs of waiting calls are
 * accepted: a changed answer or a system message from a client has no effect.
 *
 * So `sendMessage` appends, `sendMessage` with a `messageId` (edit and resend) begins a branch next to the message, and
 * `regenerate` moves the leaf back before the answer.
 *
 * @throws EspalierError `bad-input` for a value that is not a list of UI messages; errors of {@link saveUiMessages}
 */
export async function receiveUiMessages<Message extends UIMessage = UIMessage>(
  session: Session,
  messages: unknown,
  options: SaveUiOptions = {},
): Promise<Message[]> {
  const { safeValidateUIMessages } = await loadAiSdk();
  const checked = await safeValidateUIMessages<Message>({ messages });
  if (!checked.success)
    throw new EspalierError(
      "bad-input",
      "The client sent something other than a list of UI messages; send the `messages` of `useChat`.",
      { cause: checked.error },
    );
  return save<Message>(session, checked.data, options, true);
}

/** Options of a save, with the model of its answers. */
interface Saving extends SaveUiOptions {
  model: { provider: string; modelId: string };
  isFromClient: boolean;
}

async function save<Message extends UIMessage>(
  session: Session,
  messages: readonly Message[],
  options: SaveUiOptions,
  isFromClient: boolean,
): Promise<Message[]> {
  // Before the first wait, because the caller may change or reuse its list.
  const wanted = messages.map((given) => plainMessage(session, given));
  await session.load();
  const { leafId } = session;
  const model = options.model ?? session.context.model ?? { provider: "unknown", modelId: "unknown" };
  const drafts = await draftsFor(session, wanted, { ...options, model, isFromClient });
  const check = () => {
    if (session.leafId === leafId) return;
    throw new EspalierError(
      "moved",
      "The leaf was moved while messages were saved, and nothing was written; read the messages again and save the new ones.",
    );
  };
  if (drafts.length > 0) await session.append(drafts, { check });
  return uiMessages<Message>(session);
}

/** Returns a message as it would be read from the log: plain JSON without secrets. */
function plainMessage({ options: { redact = redactText } }: Session, given: UIMessage): PlainMessage {
  const lost = (path: string) => {
    throw new EspalierError(
      "bad-input",
      `The message ${given.id} cannot be saved: ${path} is not plain JSON; leave it out.`,
    );
  };
  const ui = JSON.parse(JSON.stringify(plainJson(given, lost))) as PlainMessage;
  if (redact === false) return ui;
  return redactMessage({ role: "user" as const, content: [], timestamp: 0, ui }, new Redactor(redact)).ui;
}

/** Returns the entries that save a list; when only the leaf has to move, the entry that moves it. */
async function draftsFor(
  session: Session,
  wanted: readonly PlainMessage[],
  saving: Saving,
): Promise<NewEntry[]> {
  const { leafId, tree } = session;
  const isBelieved = ({ role }: PlainMessage) => !saving.isFromClient || role === "user";
  const [first] = wanted;
  let place = await placeOn(session, wanted, leafId);
  if (place.known === 0 && first && tree.has(first.id)) {
    // The page shows another path than the leaf's, because another page has moved the leaf.
    const other = await placeOn(session, wanted, newestEnd(session, first.id));
    if (other.known > 0) place = other;
  }
  const { known, path } = place;
  const last = path.at(-1);
  const given = wanted[known - 1];
  let parentId = place.endId;
  let added = wanted.slice(known).filter(isBelieved);
  const drafts: NewEntry[] = [];
  if (last && given && !isDeepStrictEqual(last.message, given)) {
    const grown = await growth(last.message.parts, given, saving);
    if (grown) drafts.push(...entriesOf(grown, isBelieved(given) ? given : undefined, path));
    else if (isBelieved(given) && known === wanted.length) {
      path.pop();
      parentId = last.first.parentId;
      added = [given];
    }
  }
  const ids = new Set<string>();
  for (const one of added) {
    const isFree = FREE_ID.test(one.id) && !tree.has(one.id) && !ids.has(one.id);
    ids.add(one.id);
    // An answer directly after another one would become a part of that one.
    const isMore = one.role === "assistant" && path.at(-1)?.message.role === one.role;
    const [head, ...rest] = await storedOf(one, saving);
    const stored = isFree && !isMore ? head : { ...head, ui: { id: one.id } };
    drafts.push(...entriesOf([stored as StoredMessage, ...rest], one, path, isFree ? one.id : createId()));
  }
  if (parentId === leafId) return drafts;
  const [draft = leaf.of({ parentId, targetId: parentId }), ...rest] = drafts;
  return [{ ...draft, parentId }, ...rest];
}

/**
 * Returns the messages of a path up to the last one that a list knows, the id of their last entry, and the number of
 * messages at the beginning of the list whose ids are on the path, in order; the whole path when there are none.
 */
async function placeOn(session: Session, wanted: readonly PlainMessage[], pathId: string | null) {
  const said = await saidOn(session, pathId ?? undefined);
  let known = 0;
  let end = said.length;
  for (const [at, { message: shown }] of said.entries())
    if (shown.id === wanted[known]?.id) {
      known += 1;
      end = at + 1;
    }
  return { known, path: said.slice(0, end), endId: end === said.length ? pathId : said[end - 1]!.last.id };
}

/** Returns what a list adds to the parts of a message; undefined when it has another message instead. */
async function growth(
  known: readonly Part[],
  { role, parts: wanted }: PlainMessage,
  saving: Saving,
): Promise<StoredMessage[] | undefined> {
  if (role !== "assistant") return isDeepStrictEqual(known, wanted) ? [] : undefined;
  const { isFromClient } = saving;
  const calls: Part[] = [];
  let end = 0;
  for (const part of known.filter(isSaid)) {
    const key = keyOf(part);
    const at = wanted.findIndex((other, place) => place >= end && keyOf(other) === key);
    // A page may leave out reasoning and files; a different text makes it another answer.
    if (at < 0 && (part.type === "text" || isTool(part)) && !isFromClient) return undefined;
    if (at < 0) continue;
    end = at + 1;
    if (isTool(part)) calls.push(...progress(part, wanted[at]!, isFromClient));
  }
  const [, ...answers] = await converted(calls, role, saving);
  return isFromClient ? answers : [...answers, ...(await converted(wanted.slice(end), role, saving))];
}

/** Returns the call of a part when the response to its approval, or its output, is new. */
function progress(asking: Part, wanted: Part, isFromClient: boolean): Part[] {
  const approval = approvalOf(wanted);
  const isAsking = asking["state"] === "approval-requested" && approvalOf(asking)["id"] === approval["id"];
  const isAnswered = isAsking && approval["approved"] !== undefined;
  const { type, toolCallId, toolName, input } = asking;
  const call = { type, toolCallId, toolName, input, ...(isAnswered ? { approval } : {}) };
  // The server runs a call that waits for an approval.
  const isTaken = !isFromClient || asking["state"] === "input-available";
  if (isTaken && isFinal(wanted) && !isFinal(asking)) {
    const { state, output, errorText } = wanted;
    return [{ ...call, state, output, errorText }];
  }
  return isAnswered ? [{ ...call, state: "approval-responded" }] : [];
}

/** Returns the messages of the session for a message of a page: one at least, in which the others can have their data. */
async function storedOf({ role, parts }: PlainMessage, saving: Saving): Promise<StoredMessage[]> {
  const timestamp = Date.now();
  if (role === "system")
    return [{ role, content: contentText({ content: parts }), ui: {}, timestamp } as StoredMessage];
  const stored = await converted(parts, role, saving);
  if (stored.length > 0) return stored;
  if (role === "user") return [{ role, content: [], timestamp }];
  const { provider, modelId } = saving.model;
  return [{ role, content: [], provider, model: modelId, stopReason: "stop", timestamp }];
}

/** Converts parts of one UI message to messages of the session, by the SDK's own conversion. */
async function converted(
  parts: readonly Part[],
  role: "user" | "assistant",
  { model, tools }: Saving,
): Promise<StoredMessage[]> {
  const { convertToModelMessages } = await loadAiSdk();
  // A preliminary output is no output: its call is still open.
  const given = parts.map((part) =>
    part["preliminary"] === true && !isFinal(part) ? { ...part, state: "input-available" } : part,
  );
  const messages = await convertToModelMessages(
    [{ role, parts: given } as UIMessage],
    tools ? { tools } : {},
  );
  const stored = fromAiSdk(messages, { model, timestamp: Date.now() }).messages;
  const last = stored.at(-1);
  const isCut = parts.findLast(isSaid)?.["state"] === "streaming";
  if (last?.role === "assistant" && isCut) stored[stored.length - 1] = { ...last, stopReason: "aborted" };
  return stored;
}

/**
 * Returns entries of messages that continue `path`. Data of `wanted` that they do not have is in the last of them, or in
 * an entry of its own when there is none.
 *
 * @param id id of the first entry
 */
function entriesOf(
  stored: readonly StoredMessage[],
  wanted: PlainMessage | undefined,
  path: SaidMessage[],
  id = createId(),
): NewEntry[] {
  const drafts = stored.map((one, at) => ({
    ...message.of({ message: one }),
    id: at === 0 ? id : createId(),
  }));
  for (const draft of drafts) take(path, draft as Entry);
  const patch = wanted && patchBetween(path.at(-1)!.message, wanted);
  if (!patch) return drafts;
  const last = drafts.pop();
  if (!last) return [{ ...custom.of({ customType: UI, data: patch }), id }];
  const { message: said } = last as typeof last & { message: StoredMessage & { ui?: UiPatch } };
  return [...drafts, { ...last, message: { ...said, ui: { ...said.ui, ...patch } } }] as NewEntry[];
}

/** Ids that an entry can have: at most 64 letters, digits, `_` and `-`, the first one a letter or digit. */
const FREE_ID = /^[A-Za-z0-9][\w-]{0,63}$/;
