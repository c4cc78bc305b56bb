import fc from "fast-check";
import { input, mostOf, PNG, rounds, text } from "./format-histories.ts";

type Part = Record<string, unknown>;

const beside = fc.constantFrom(
  {},
  { providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } } },
);
const userPart: fc.Arbitrary<Part> = fc.oneof(
  fc.tuple(text, beside).map(([said, more]) => ({ type: "text", text: said, ...more })),
  beside.map((more) => ({ type: "image", image: PNG, mediaType: "image/png", ...more })),
  fc.webUrl().map((image) => ({ type: "image", image })),
  text.map((filename) => ({ type: "file", data: PNG, mediaType: "image/png", filename })),
  text.map((filename) => ({ type: "file", data: "JVBERi0=", mediaType: "application/pdf", filename })),
);

const thoughts: fc.Arbitrary<Part[]> = mostOf(
  fc.oneof(
    fc.tuple(text, text).map(([said, signature]) => ({
      type: "reasoning",
      text: said,
      providerOptions: { anthropic: { signature } },
    })),
    text.map((redactedData) => ({
      type: "reasoning",
      text: "",
      providerOptions: { anthropic: { redactedData } },
    })),
    text.map((said) => ({
      type: "reasoning",
      text: said,
      providerOptions: { anthropic: { signature: said, cacheControl: { type: "ephemeral" } } },
    })),
  ),
);
const answeredParts = fc.oneof(
  fc.tuple(text, beside).map(([said, more]): Part[] => [{ type: "text", text: said, ...more }]),
  text.map((query): Part[] => [
    {
      type: "tool-call",
      toolCallId: "srv_1",
      toolName: "web_search",
      input: { query },
      providerExecuted: true,
    },
    {
      type: "tool-result",
      toolCallId: "srv_1",
      toolName: "web_search",
      output: { type: "json", value: [query] },
    },
    { type: "text", text: query },
  ]),
);
const answered = fc
  .tuple(thoughts, mostOf(answeredParts, 1))
  .map(([reasoning, parts]) => [...reasoning, ...parts.flat()]);

const resultPart: fc.Arbitrary<Part> = fc.oneof(
  text.map((said) => ({ type: "text", text: said })),
  fc.constant({ type: "image-data", data: PNG, mediaType: "image/png" }),
  fc.webUrl().map((url) => ({ type: "image-url", url })),
  text.map((filename) => ({ type: "file-data", data: "JVBERi0=", mediaType: "application/pdf", filename })),
);
const output = fc.oneof(
  text.map((value) => ({ type: "text", value })),
  text.map((value) => ({ type: "error-text", value })),
  input.map((value) => ({ type: "json", value })),
  input.map((value) => ({ type: "error-json", value })),
  text.map((reason) => ({ type: "execution-denied", reason })),
  fc.tuple(resultPart, resultPart).map(([first, second]) => ({ type: "content", value: [first, second] })),
);
const call = (toolCallId: string) =>
  fc.record({ input, output, beside }).map(({ input: given, output: gave, beside: more }) => ({
    call: { type: "tool-call", toolCallId, toolName: "tool", input: given, ...more } as Part,
    given: { type: "tool-result", toolCallId, toolName: "tool", output: gave, ...more } as Part,
  }));

/** Conversations of the AI SDK with Claude, in the form in which we write them. */
export const aiSdkMessages = rounds<Part, Part, Part, Part>({ said: userPart, answered, call }).map((all) =>
  all.flatMap(({ said, answered: parts, calls }) => [
    { role: "user", content: said },
    { role: "assistant", content: [...parts, ...calls.map((each) => each.call)] },
    ...(calls.length > 0 ? [{ role: "tool", content: calls.map((each) => each.given) }] : []),
  ]),
);
