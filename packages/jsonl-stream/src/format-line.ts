import { checkJson, LINE_LIMITS, type LineLimits } from "./check-json.ts";
import { JsonlError } from "./jsonl-error.ts";

/** The JSON text of one line, without newline. */
export function formatLine(value: unknown, limits: LineLimits = {}): string {
  checkJson(value, limits);
  const text = healed(JSON.stringify(value));
  const { bytes = LINE_LIMITS.bytes } = limits;
  if (text.length * 3 > bytes && new TextEncoder().encode(text).length > bytes) {
    throw new JsonlError(
      "line-too-long",
      `The line is longer than ${bytes} bytes; shorten it or raise the limit.`,
    );
  }
  return text;
}

function healed(text: string): string {
  if (!text.includes("\\ud")) return text;
  const replaced = text.replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (match) =>
    match === "\\\\" ? match : "\ufffd",
  );
  return replaced === text ? text : JSON.stringify(JSON.parse(replaced));
}
