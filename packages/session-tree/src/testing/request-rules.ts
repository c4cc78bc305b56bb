/** What the rules of all providers are written with; see messages-rules.ts. */

/** A parsed request, of which nothing is known yet. */
// biome-ignore lint/suspicious/noExplicitAny: a checker reads what it does not trust, and a test fails where it stumbles
export type Json = Record<string, any>;
export type Must = (holds: boolean, rule: string) => unknown;

const ID = /^[a-zA-Z0-9_-]+$/;
export const MEDIA = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);
export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
export const isReadable = (text: unknown): boolean =>
  typeof text === "string" && /[^\s\x1c-\x1f\x85]/.test(text);

export function checkCall(
  id: string,
  name: string,
  idLength: number,
  nameLength: number,
  where: string,
  must: Must,
  ids: Set<string>,
): void {
  must(ID.test(id) && id.length <= idLength, `${where}: id should match pattern`);
  must(ID.test(name) && name.length <= nameLength, `${where}: name should match pattern`);
  must(!ids.has(id), `${where}: \`tool_use\` ids must be unique`);
  ids.add(id);
}

export function checkTools(
  tools: Json[] | undefined,
  inner: (tool: Json) => Json,
  schema: string,
  nameLength: number,
  must: Must,
): void {
  if (tools === undefined) return;
  must(tools.length > 0, "tools: an empty list");
  const names = tools.map((tool) => inner(tool)["name"]);
  must(
    names.every((name) => ID.test(name) && name.length <= nameLength),
    "tools: name should match pattern",
  );
  must(new Set(names).size === names.length, "tools: tool names must be unique");
  for (const tool of tools) {
    must(
      inner(tool)[schema]?.type === "object" && isObject(inner(tool)[schema].properties),
      "tools: schema is not of an object",
    );
  }
}

export function checkUnicode(request: Json, must: Must): void {
  // Lone surrogates are what JSON.stringify escapes as \ud8xx to \udfxx; a backslash of the text comes doubled.
  must(
    !JSON.stringify(request).replaceAll("\\\\", "").includes("\\ud"),
    "the request body is not valid JSON: no low surrogate in string",
  );
}

export const idOf = (block: Json): string => block["id"];
