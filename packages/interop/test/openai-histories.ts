import fc from "fast-check";
import { input, mostOf, PNG, rounds, text } from "./format-histories.ts";

type Item = Record<string, unknown>;

const DATA_URL = `data:image/png;base64,${PNG}`;
const address = fc.oneof(fc.constant(DATA_URL), fc.webUrl());

const part: fc.Arbitrary<Item> = fc.oneof(
  text.map((said) => ({ type: "input_text", text: said })),
  fc
    .tuple(address, fc.constantFrom("auto", "high"))
    .map(([image_url, detail]) => ({ type: "input_image", image_url, detail })),
  text.map((file_id) => ({ type: "input_file", file_id })),
);
const picture = fc.constant({ type: "input_image", image_url: DATA_URL, detail: "auto" });

const reasoning = fc
  .tuple(text, mostOf(text.map((said) => ({ type: "summary_text", text: said }))))
  .map(([encrypted_content, summary]) => ({ type: "reasoning", id: "rs_1", summary, encrypted_content }));
const answeredItem: fc.Arbitrary<Item> = fc.oneof(
  text.map((content) => ({ type: "message", role: "assistant", content })),
  text.map((content) => ({ type: "message", role: "assistant", content, phase: "commentary" })),
  text.map((refusal) => ({ type: "message", role: "assistant", content: [{ type: "refusal", refusal }] })),
  text.map((query) => ({
    type: "web_search_call",
    id: "ws_1",
    status: "completed",
    action: { type: "search", query },
  })),
);
const answered = fc.tuple(mostOf(reasoning), mostOf(answeredItem, 1)).map((lists) => lists.flat());

const output = fc.oneof(
  text,
  fc.tuple(mostOf(part), picture).map(([parts, last]): unknown => [...parts, last]),
);
const responsesCall = (call_id: string) =>
  fc
    .record({ input, said: text, output, custom: fc.boolean() })
    .map(({ input: given, said, output: gave, custom }) =>
      custom
        ? {
            call: { type: "custom_tool_call", call_id, name: "patch", input: said } as Item,
            given: { type: "custom_tool_call_output", call_id, output: gave } as Item,
          }
        : {
            call: { type: "function_call", call_id, name: "tool", arguments: JSON.stringify(given) } as Item,
            given: { type: "function_call_output", call_id, output: gave } as Item,
          },
    );

/** Conversations of the Responses API in the form in which we write them. */
export const responsesInput = fc
  .tuple(
    rounds<Item, Item, Item, Item>({ said: part, answered, call: responsesCall }),
    fc.option(text.map((encrypted_content) => ({ type: "compaction", id: "cmp_1", encrypted_content }))),
  )
  .map(([all, compaction]) =>
    all.flatMap(({ said, answered: items, calls }, at): Item[] => [
      { type: "message", role: "user", content: said },
      ...(compaction && at === 0 ? [compaction] : []),
      ...items,
      ...calls.map(({ call }) => call),
      ...calls.map(({ given }) => given),
    ]),
  );

const chatPart: fc.Arbitrary<Item> = fc.oneof(
  text.map((said) => ({ type: "text", text: said })),
  fc
    .tuple(address, fc.constantFrom(undefined, "high"))
    .map(([url, detail]) => ({ type: "image_url", image_url: { url, ...(detail ? { detail } : {}) } })),
  fc.constant({ type: "input_audio", input_audio: { data: "UklGRg==", format: "wav" } }),
  text.map((file_id) => ({ type: "file", file: { file_id } })),
);
const hasMore = (parts: Item[]): boolean => parts.some(({ type }) => type !== "text");
const chatContent = fc.oneof(text, mostOf(chatPart, 1).filter(hasMore));

const chatCall = (id: string) =>
  fc
    .record({ input, said: text, output: text, custom: fc.boolean() })
    .map(({ input: given, said, output: content, custom }) => ({
      call: (custom
        ? { id, type: "custom", custom: { name: "patch", input: said } }
        : { id, type: "function", function: { name: "tool", arguments: JSON.stringify(given) } }) as Item,
      given: { role: "tool", tool_call_id: id, content } as Item,
    }));

/** Conversations of Chat Completions in the form in which we write them. */
export const chatMessages = rounds<unknown, Item, Item, Item>({
  said: chatContent,
  answered: fc.oneof(
    text.map((content) => [{ content }]),
    text.map((refusal) => [{ content: null, refusal }]),
  ),
  call: chatCall,
}).map((all) =>
  all.flatMap(({ said, answered: [answer], calls }): Item[] => [
    { role: "user", content: said[0] },
    {
      role: "assistant",
      ...answer,
      ...(calls.length > 0 ? { tool_calls: calls.map(({ call }) => call) } : {}),
    },
    ...calls.map(({ given }) => given),
  ]),
);
