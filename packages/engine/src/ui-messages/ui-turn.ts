import { fromAiSdk } from "@espalier/interop";
import { type AssistantMessage, createId, message, type NewEntry } from "@espalier/session-tree";
import type { ModelMessage, ToolSet, UIMessage } from "ai";
import type { AiSdkParams } from "../providers/ai-sdk.ts";
import { sentEntry } from "../session/replay.ts";
import type { Session } from "../session/session.ts";
import { nextRequest } from "../turn/ask.ts";
import type { Provider } from "../turn/provider.ts";
import { isAnswered, TurnLog } from "../turn/turn.ts";
import { saveUiMessages } from "./save.ts";
import { uiMessages } from "./ui-messages.ts";

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
   * Resolves when `response` was streamed and saved. Rejects when a step or the answer could not be recorded. This
   * error is also logged, because the SDK ignores it.
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
 * result. Approved calls are run by the SDK. Works with `generateText` and agents too: they take `request`.
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
  const originalMessages = await uiMessages<Message>(session);
  const last = originalMessages.at(-1);
  const messageId = last?.role === "assistant" ? last.id : createId();
  const model = { provider: provider.provider, modelId: provider.modelId };
  let isBegun = last?.role === "assistant";
  let recorded = 0;
  let failure: unknown;

  /** Appends messages of the answer that are not in the log yet. */
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

  return {
    request: {
      ...withoutTools(first.params),
      ...(signal ? { abortSignal: signal } : {}),
      async prepareStep({ messages }) {
        if (failure !== undefined) throw failure;
        const before = recorded;
        await record(messages.slice(first.params.messages.length));
        if (isAnswered(session.context.messages)) return {};
        const isFirst = recorded === 0 && before === 0;
        const { params } = isFirst ? first : await nextRequest(session, provider, options);
        await log.append([sentEntry(session.leafId, provider.modelId)], "fsync");
        return {
          messages: params.messages,
          ...(params.system === undefined ? {} : { system: params.system }),
        };
      },
      async onStepFinish(step) {
        await record(step.response.messages, step).catch(fail);
      },
    },
    response: {
      originalMessages,
      generateMessageId: () => messageId,
      async onFinish({ responseMessage }) {
        try {
          if (failure !== undefined) return;
          const isEmpty = responseMessage.parts.every(({ type }) => type === "step-start");
          const end = [...(last && last.id !== messageId ? [last] : []), responseMessage];
          if (!isEmpty) await saveUiMessages(session, end, { tools, model });
          saved.resolve();
        } catch (error) {
          fail(error);
        }
      },
    },
    saved: saving,
  };
}

/** The recorded part of a step of the SDK. */
type Step = Parameters<UiTurn["request"]["onStepFinish"]>[0];

function withoutTools({ tools: _tools, ...params }: AiSdkParams): Omit<AiSdkParams, "tools"> {
  return params;
}

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
