import fc from "fast-check";
import { input, mostOf, PNG, rounds, text } from "./format-histories.ts";

type Block = Record<string, unknown>;

const url = fc.webUrl();
const picture = fc.oneof(
  fc.constant({ type: "image", source: { type: "base64", media_type: "image/png", data: PNG } }),
  url.map((address) => ({ type: "image", source: { type: "url", url: address } })),
  fc.constant({ type: "image", source: { type: "file", file_id: "file_7" } }),
);
const document = fc.oneof(
  text.map((title) => ({
    type: "document",
    source: { type: "base64", media_type: "application/pdf", data: "JVBERi0=" },
    title,
  })),
  url.map((address) => ({ type: "document", source: { type: "url", url: address } })),
);
const plain = text.map((said) => ({ type: "text", text: said }));
const userBlock: fc.Arbitrary<Block> = fc.oneof(plain, picture, document);

const thought: fc.Arbitrary<Block> = fc.oneof(
  fc.tuple(text, text).map(([thinking, signature]) => ({ type: "thinking", thinking, signature })),
  text.map((data) => ({ type: "redacted_thinking", data })),
);
const served = fc.tuple(text, input).map(([query, more]) => [
  { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query, more } },
  {
    type: "web_search_tool_result",
    tool_use_id: "srvtoolu_1",
    content: [{ type: "web_search_result", encrypted_content: query }],
  },
]);
const cited = fc
  .tuple(text, text)
  .map(([said, index]) => [
    { type: "text", text: said, citations: [{ type: "web_search_result_location", encrypted_index: index }] },
  ]);
const answered: fc.Arbitrary<Block[]> = fc
  .tuple(
    mostOf(thought),
    mostOf(
      fc.oneof(
        plain.map((block) => [block]),
        cited,
        served,
      ),
      1,
    ),
  )
  .map(([thoughts, said]) => [...thoughts, ...said.flat()]);

const call = (id: string) =>
  fc
    .record({
      input,
      caller: fc.constantFrom(undefined, { type: "direct" }),
      content: mostOf(userBlock, 1),
      failed: mostOf(plain),
      isError: fc.boolean(),
    })
    .map(({ input: given, caller, content, failed, isError }) => ({
      call: { type: "tool_use", id, name: "tool", input: given, ...(caller ? { caller } : {}) },
      given:
        isError && failed.length > 0
          ? { type: "tool_result", tool_use_id: id, content: failed, is_error: true }
          : { type: "tool_result", tool_use_id: id, content },
    }));

/** Conversations of the Messages API in the form in which we write them. */
export const anthropicMessages = rounds<Block, Block, Block, Block>({ said: userBlock, answered, call }).map(
  (all) => {
    const messages: { role: string; content: Block[] }[] = [];
    let results: Block[] = [];
    for (const { said, answered: blocks, calls } of all) {
      messages.push({ role: "user", content: [...results, ...said] });
      messages.push({ role: "assistant", content: [...blocks, ...calls.map((each) => each.call)] });
      results = calls.map((each) => each.given);
    }
    if (results.length > 0) messages.push({ role: "user", content: results });
    return messages;
  },
);
