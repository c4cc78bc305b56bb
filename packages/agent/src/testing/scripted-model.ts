import type { AnswerEvent, Provider } from "@espalier/engine";
import {
  type AnthropicRequest,
  type AssistantBlock,
  type AssistantMessage,
  anthropicFormat,
  buildRequest,
  type StopReason,
} from "@espalier/session-tree";

/** Answer of a scripted model to one request. */
export interface ScriptedTurn {
  text?: string;
  calls?: { id: string; name: string; arguments: Record<string, unknown> }[];
  stopReason?: StopReason;
  errorMessage?: string;
  /** Tokens that the provider reports for the prompt. Default: the size of the request's JSON / 4. */
  inputTokens?: number;
  /** Milliseconds before the answer. An abort ends the wait. */
  delayMs?: number;
}

/** A model that records its requests. */
export interface ScriptedModel extends Provider<AnthropicRequest> {
  /** All requests, in order. */
  readonly requests: AnthropicRequest[];
  send(request: AnthropicRequest, signal: AbortSignal): AsyncGenerator<AnswerEvent>;
}

/** Returns a model for tests that answers by a script: a list of turns, or a function of the request and its number. */
export function scriptedModel(
  script: readonly ScriptedTurn[] | ((request: AnthropicRequest, turn: number) => ScriptedTurn),
  { contextWindow = 200_000, modelId = "scripted" }: { contextWindow?: number; modelId?: string } = {},
): ScriptedModel {
  const requests: AnthropicRequest[] = [];
  return {
    provider: "scripted",
    modelId,
    contextWindow,
    maxOutputTokens: 8_192,
    requests,
    params: (context, { system, tools }) =>
      buildRequest(context, {
        format: anthropicFormat,
        model: { provider: "scripted", modelId },
        system,
        tools,
      }),
    read: (answer) => answer as AsyncIterable<AnswerEvent>,
    async *send(request, signal): AsyncGenerator<AnswerEvent> {
      requests.push(request);
      const turn =
        typeof script === "function"
          ? script(request, requests.length)
          : (script[requests.length - 1] ?? { text: "(the script is over)" });
      const aborted = await waited(turn.delayMs ?? 0, signal);
      const content: AssistantBlock[] = [
        ...(turn.text ? [{ type: "text" as const, text: turn.text }] : []),
        ...(turn.calls ?? []).map((call) => ({ type: "toolCall" as const, ...call })),
      ];
      if (turn.text && !aborted) yield { type: "text", text: turn.text };
      const input = turn.inputTokens ?? Math.ceil(JSON.stringify(request).length / 4);
      const message: AssistantMessage = {
        role: "assistant",
        content: aborted ? [] : content,
        provider: "scripted",
        model: modelId,
        usage: { input, output: 10, cacheRead: 0, cacheWrite: 0, totalTokens: input + 10 },
        stopReason: aborted ? "aborted" : (turn.stopReason ?? (turn.calls?.length ? "toolUse" : "stop")),
        ...(turn.errorMessage ? { errorMessage: turn.errorMessage } : {}),
        timestamp: Date.now(),
      };
      yield { type: "answer", message };
    },
  };
}

/** Waits with the global timer, which tests can replace. Returns whether the signal was aborted. */
async function waited(milliseconds: number, signal: AbortSignal): Promise<boolean> {
  if (signal.aborted || milliseconds === 0) return signal.aborted;
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}
