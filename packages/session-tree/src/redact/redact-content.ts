import { parsedItem } from "../request/parsed-item.ts";
import { isRecord } from "../request/record.ts";
import { byName, type FieldRule, type Redactor } from "./redactor.ts";

/** The content of a message: text, or blocks. */
export function redactContent(content: unknown, redactor: Redactor): unknown {
  if (!Array.isArray(content)) return redactor.deep(content);
  return redactor.list(content, (block) =>
    isRecord(block) ? redactBlock(block, redactor) : redactor.deep(block),
  );
}

const COMMON = { type: "keep", native: redactWire } as const;
const rulesOf = new Map([
  ["text", byName({ ...COMMON, textSignature: "keep" })],
  ["image", byName({ ...COMMON, data: "keep", mimeType: "keep" })],
  ["toolCall", byName({ ...COMMON, id: "keep", name: "keep", thoughtSignature: "keep" })],
  ["thinking", byName({ ...COMMON, redacted: "keep", thinkingSignature: "keep" })],
]);
const unknownBlock = byName(COMMON);

function redactBlock(block: Record<string, unknown>, redactor: Redactor): unknown {
  const type = String(block["type"]);
  const treated = redactor.fields(block, rulesOf.get(type) ?? unknownBlock);
  return type === "thinking" ? unsignedIfChanged(block, treated, redactor) : treated;
}

/**
 * A signature vouches for the reasoning as it was, and the provider refuses it on any other; and one that is an item of
 * JSON tells the reasoning again. Either way it goes when there was something to hide.
 */
function unsignedIfChanged(block: Record<string, unknown>, treated: unknown, redactor: Redactor): unknown {
  const { thinkingSignature, ...unsigned } = treated as Record<string, unknown>;
  const item = parsedItem(thinkingSignature);
  const tellsMore = item !== undefined && redactWire(item, redactor) !== item;
  return treated === block && !tellsMore ? block : unsigned;
}

/** Fields of a provider's own blocks that a machine wrote for a machine. */
const WIRE_KEPT =
  /^(type|role|status|name|format|media_?type|detail|phase|signature|redactedData|itemId|reasoningEncryptedContent|encrypted_\w+|\w*_id|id|\w+Id)$/i;

/** Fields that hold bytes, unless the block says that they are text. */
const WIRE_BYTES = /^(data|file_data)$/;

/** What one format says of a block: the provider's own words for ids and types, and text among them. */
export function redactWire(value: unknown, redactor: Redactor): unknown {
  if (Array.isArray(value)) return redactor.list(value, (item) => redactWire(item, redactor));
  if (!isRecord(value)) return redactor.deep(value);
  const isText = value["type"] === "text";
  return redactor.fields(value, (name) =>
    WIRE_KEPT.test(name) || (WIRE_BYTES.test(name) && !isText) ? keepText : redactWire,
  );
}

/** A field that is kept when it is a text, and looked into when it is more. */
const keepText: FieldRule = (value, redactor) =>
  typeof value === "object" && value !== null ? redactWire(value, redactor) : value;

/** Where a JSON Schema speaks to people. */
const SPOKEN = new Set(["description", "title", "$comment", "default", "examples"]);

/** A tool's schema: its words, not its grammar. */
export function redactSchema(schema: unknown, redactor: Redactor): unknown {
  if (Array.isArray(schema)) return redactor.list(schema, (item) => redactSchema(item, redactor));
  if (!isRecord(schema)) return schema;
  return redactor.fields(schema, (name) =>
    // A property of this name is a schema itself.
    SPOKEN.has(name) && !isRecord(schema[name]) ? undefined : redactSchema,
  );
}
