import { isDeepStrictEqual } from "node:util";
import { fromAiSdk, plainJson } from "@espalier/interop";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type AssistantMessage,
  createId,
  custom,
  type Entry,
  isRecord,
  leaf,
  message,
  type NewEntry,
  Redactor,
  redactEntry,
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
  Conversation,
  conversationOf,
  isFinal,
  isSaid,
  isTool,
  keyOf,
  newestEnd,
  type Part,
  type PlainMessage,
  patchBetween,
  type SaidMessage,
  storedParts,
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
  const model = { provider: provider.provider, modelId: provider.modelId };
  let isBegun = last?.role === "assistant";
  let recorded = 0;
  let failure: unknown;
  let hasPage = false;

  const record = async (messages: readonly ModelMessage[], step?: Step): Promise<void> => {
    const fresh = messages.slice(recorded);
    recorded = Math.max(recorded, messages.length);
    const stored = fromAiSdk(fresh, { model, timestamp: Date.now() }).messages;
    const drafts: NewEntry[] = [];
    for (const one of stored) {
      const said =
        one.role === "assistant" && step ? { ...one, ...(await billOf(provider, step, fresh)) } : one;
      const isFirst = one.role === "assistant" && !isBegun;
      if (isFirst) isBegun = true;
      // After the answer of a turn that ran at the same time, this one would become a part of it.
      const isMore = isFirst && session.context.messages.at(-1)?.role === "assistant";
      const ui = isMore ? { ui: { id: messageId } } : {};
      drafts.push({ ...message.of({ message: { ...said, ...ui } }), ...(isFirst ? { id: messageId } : {}) });
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
    if (!isEmpty) await saveUiMessages(session, end, { tools, model });
    saved.resolve();
  };

  return {
    request: {
      ...sent,
      ...(signal ? { abortSignal: signal } : {}),
      async prepareStep({ messages }) {
        if (failure !== undefined) throw failure;
        await record(messages.slice(sent.messages.length));
        if (isAnswered(session.context.messages)) return {};
        const { params } = recorded === 0 ? first : await nextRequest(session, provider, options);
        await log.append([sentEntry(session.leafId, provider.modelId)], "fsync");
        return {
          messages: params.messages,
          ...(params.system === undefined ? {} : { system: params.system }),
        };
      },
      async onStepFinish(step) {
        await record(step.response.messages, step).catch(fail);
      },
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
  return save<Message>(session, messages, { ...options, isFromClient: false });
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
  return save<Message>(session, checked.data, { ...options, isFromClient: true });
}

interface Saving extends SaveUiOptions {
  isFromClient: boolean;
}

async function save<Message extends UIMessage>(
  session: Session,
  messages: readonly Message[],
  options: Saving,
): Promise<Message[]> {
  // Before the first wait, because the caller may change or reuse its list.
  const wanted = messages.map((given) => plainMessage(session, given));
  await session.load();
  const { leafId } = session;
  const drafts = await draftsFor(session, wanted, options);
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
  const entry = { type: "message", message: { role: "user", content: [], ui } } as NewEntry;
  const redacted: unknown = redactEntry(entry, new Redactor(redact));
  return (redacted as { message: { ui: PlainMessage } }).message.ui;
}

async function draftsFor(
  session: Session,
  wanted: readonly PlainMessage[],
  options: Saving,
): Promise<NewEntry[]> {
  let { said } = await conversationOf(session);
  let known = knownIn(said, wanted);
  let endId = session.leafId;
  const [first] = wanted;
  if (known.length === 0 && first && session.tree.has(first.id)) {
    // The page shows another path than the leaf's, because another page has moved the leaf.
    const end = newestEnd(session, first.id);
    const other = await conversationOf(session, end);
    known = knownIn(other.said, wanted);
    if (known.length > 0) [said, endId] = [other.said, end];
  }
  const added = wanted.slice(known.length).filter(({ role }) => !options.isFromClient || role === "user");
  const at = known.at(-1);
  const last = at === undefined ? undefined : said[at];
  if (!last) return drafting(session, said, session.leafId, options).addAll(added);
  const given = wanted[known.length - 1]!;
  const end = at === said.length - 1 ? endId : last.last.id;
  const held = drafting(session, said.slice(0, at! + 1), end, options);
  if (isDeepStrictEqual(last.message, given)) return held.addAll(added);
  const isSameText = isDeepStrictEqual(last.message.parts, given.parts);
  const isBelieved = !options.isFromClient || given.role === "user";
  if (given.role !== "assistant" ? isSameText : await held.goOn(last, given)) {
    if (isBelieved) held.patch(given);
    return held.addAll(added);
  }
  if (known.length < wanted.length || !isBelieved) return held.addAll(added);
  return drafting(session, said.slice(0, at), last.first.parentId, options).addAll([given]);
}

/** Returns the positions of the first messages of a list, as far as their ids are known, in order. */
function knownIn(said: readonly SaidMessage[], wanted: readonly PlainMessage[]): number[] {
  const known: number[] = [];
  for (const { id } of wanted) {
    const at = said.findIndex(({ message }, place) => message.id === id && place > (known.at(-1) ?? -1));
    if (at < 0) break;
    known.push(at);
  }
  return known;
}

function drafting(session: Session, said: readonly SaidMessage[], parentId: string | null, options: Saving) {
  const { isFromClient, tools } = options;
  const model = options.model ?? session.context.model ?? { provider: "unknown", modelId: "unknown" };
  const converted = (parts: readonly Part[], role: "user" | "assistant" = "assistant") =>
    storedParts(parts, role, { model, tools });
  const conversation = new Conversation(said);
  const drafts: NewEntry[] = [];
  const ids = new Set<string>();

  /** Adds messages, and returns the entries to append; if there are none, an entry that moves the leaf, if necessary. */
  async function addAll(messages: readonly PlainMessage[]): Promise<NewEntry[]> {
    for (const wanted of messages) {
      const stored = await storedOf(wanted);
      const isFree = FREE_ID.test(wanted.id) && !session.tree.has(wanted.id) && !ids.has(wanted.id);
      const id = isFree ? wanted.id : createId();
      // An answer directly after another one would become a part of that one.
      const isMore = wanted.role === "assistant" && conversation.said.at(-1)?.message.role === wanted.role;
      const ui = id === wanted.id && !isMore ? {} : { ui: { id: wanted.id } };
      for (const [at, one] of stored.entries())
        add(at > 0 ? one : { ...one, ...ui }, at > 0 ? createId() : id);
      patch(wanted);
    }
    const [first, ...rest] = drafts;
    if (first) return parentId === session.leafId ? drafts : [{ ...first, parentId }, ...rest];
    return parentId === session.leafId ? [] : [leaf.of({ parentId, targetId: parentId })];
  }

  /** Adds the parts that the path lacks. Returns false for another answer, and if a client brings nothing accepted. */
  async function goOn(
    { message: { parts: known } }: SaidMessage,
    { parts: wanted }: PlainMessage,
  ): Promise<boolean> {
    const grown: Part[] = [];
    let end = 0;
    for (const part of known) {
      if (!isSaid(part)) continue;
      const key = keyOf(part);
      const at = wanted.findIndex((other, place) => place >= end && keyOf(other) === key);
      // A page may leave out reasoning and files; a different text makes it another answer.
      if (at < 0 && (part.type === "text" || isTool(part)) && !isFromClient) return false;
      if (at < 0) continue;
      end = at + 1;
      if (isTool(part)) grown.push(...progress(part, wanted[at]!));
    }
    const [, ...stored] = grown.length > 0 ? await converted(grown) : [];
    if (!isFromClient) stored.push(...(await converted(wanted.slice(end))));
    for (const one of stored) add(one, createId());
    return stored.length > 0 || !isFromClient;
  }

  /** Returns the call of a part when the response to its approval, or its output, is new. */
  function progress(asking: Part, wanted: Part): Part[] {
    const { approval: answer } = wanted as { approval?: { id?: unknown; approved?: unknown } };
    const { id } = (asking["approval"] ?? {}) as { id?: unknown };
    const isAsking = asking["state"] === "approval-requested" && id === answer?.id;
    const approval = isAsking && answer?.approved !== undefined ? { approval: answer } : undefined;
    const { type, toolCallId, toolName, input } = asking;
    const call = { type, toolCallId, toolName, input, ...approval };
    // The server runs a call that waits for an approval.
    const isTaken = !isFromClient || asking["state"] === "input-available";
    if (isTaken && isFinal(wanted) && !isFinal(asking)) {
      const { state, output, errorText } = wanted;
      return [{ ...call, state, output, errorText }];
    }
    return approval ? [{ ...call, state: "approval-responded" }] : [];
  }

  async function storedOf({ role, parts }: PlainMessage): Promise<StoredMessage[]> {
    const timestamp = Date.now();
    const stored = role === "system" ? [] : await converted(parts, role);
    if (stored.length > 0) return stored;
    if (role === "user") return [{ role, content: [], timestamp }];
    if (role === "system") {
      const texts = parts.flatMap(({ type, text }) =>
        type === "text" && typeof text === "string" ? [text] : [],
      );
      return [{ role, content: texts.join("\n"), ui: {}, timestamp } as StoredMessage];
    }
    const { provider, modelId } = model;
    return [{ role, content: [], provider, model: modelId, stopReason: "stop", timestamp }];
  }

  function add(stored: StoredMessage, id: string): void {
    const draft = { ...message.of({ message: stored }), id };
    ids.add(id);
    drafts.push(draft);
    conversation.take(draft as Entry);
  }

  /** Records the data of the last message that the entries do not have. */
  function patch(wanted: PlainMessage): void {
    const newest = conversation.said.at(-1)!;
    const difference = patchBetween(newest.message, wanted);
    if (!difference) return;
    const last = drafts.at(-1);
    const isOwn = last !== undefined && last.id === newest.last.id && message.is(last as Entry);
    const draft = isOwn
      ? withUi(last, difference)
      : { ...custom.of({ customType: UI, data: difference }), id: createId() };
    if (isOwn) drafts.pop();
    drafts.push(draft);
    conversation.said[conversation.said.length - 1] = { ...newest, message: wanted, last: draft as Entry };
  }
  return { addAll, goOn, patch };
}

function withUi(draft: NewEntry, patch: UiPatch): NewEntry {
  const { message: stored } = draft as NewEntry & { message: StoredMessage & { ui?: UiPatch } };
  return { ...draft, message: { ...stored, ui: { ...stored.ui, ...patch } } } as NewEntry;
}

/** Ids that an entry can have: at most 64 letters, digits, `_` and `-`, the first one a letter or digit. */
const FREE_ID = /^[A-Za-z0-9][\w-]{0,63}$/;
