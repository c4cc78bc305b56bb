import type { ActOptions } from "@espalier/engine";
import { jsonText } from "@espalier/jsonl-stream";
import { failureAnswer } from "./failure.ts";

/**
 * An act that takes its time, as JSON Lines: `{progress}` as often as something is known, then one `{result}` or
 * `{error}`. Whoever stops reading ends the act; nothing of it is then in the log.
 */
export function streamAct(
  act: (options: Required<ActOptions>) => Promise<unknown>,
): ReadableStream<Uint8Array> {
  const stopping = new AbortController();
  const encoder = new TextEncoder();
  return new ReadableStream({
    async start(controller) {
      const write = (value: object) => {
        if (!stopping.signal.aborted) controller.enqueue(encoder.encode(`${jsonText(value)}\n`));
      };
      write({ progress: { outputTokens: 0 } });
      try {
        const result = await act({
          signal: stopping.signal,
          onProgress: ({ outputTokens }) => write({ progress: { outputTokens } }),
        });
        write({ result });
      } catch (error) {
        write({ error: failureAnswer(error).error });
      }
      if (!stopping.signal.aborted) controller.close();
    },
    cancel: () => stopping.abort(),
  });
}
