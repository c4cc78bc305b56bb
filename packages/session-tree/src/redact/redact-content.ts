import { fieldText } from "../plain-text.ts";
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

const COMMON = { type: "name", native: redactWire } as const;
const rulesOf = new Map([
  ["text", byName({ ...COMMON, textSignature: "keep" }, wireRule)],
  ["image", byName({ ...COMMON, data: "keep", mimeType: "name" }, wireRule)],
  ["toolCall", byName({ ...COMMON, id: "keep", name: "name", thoughtSignature: "keep" }, wireRule)],
  ["thinking", byName({ ...COMMON, redacted: "keep", thinkingSignature: "keep" }, wireRule)],
]);
const unknownBlock = byName(COMMON, wireRule);

function redactBlock(block: Record<string, unknown>, redactor: Redactor): unknown {
  const type = fieldText(block["type"]);
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

/** Fields of a provider's own blocks that only the provider can read, or vouches for, and ids. */
const SEALED =
  /^(encrypted_\w+|reasoningEncryptedContent|redactedData|signature|\w+Signature|\w*_id|id|\w+Id)$/i;

/** Fields of a provider's own blocks whose words are the provider's. */
const NAMES = /^(type|role|status|name|format|media_?type|detail|phase)$/i;

/** What a model gave to a tool: its members are the tool's, whatever they are called. */
const GIVEN = /^(arguments|args|input)$/;

/** Fields that hold bytes, unless the block says that they are text. */
const WIRE_BYTES = /^(data|file_data)$/;

/** What one format says of a block: the provider's own words for ids and types, and text among them. */
export function redactWire(value: unknown, redactor: Redactor): unknown {
  if (Array.isArray(value)) return redactor.list(value, (item) => redactWire(item, redactor));
  if (!isRecord(value)) return redactor.deep(value);
  const isText = value["type"] === "text";
  return redactor.fields(value, (name) => (WIRE_BYTES.test(name) && !isText ? keepText : wireRule(name)));
}

function wireRule(name: string): FieldRule {
  if (GIVEN.test(name)) return undefined;
  if (NAMES.test(name)) return nameOrWire;
  return SEALED.test(name) ? keepText : redactWire;
}

/** A field that is kept when it is a text, and looked into when it is more. */
const keepText: FieldRule = (value, redactor) =>
  typeof value === "object" && value !== null ? redactWire(value, redactor) : value;

const nameOrWire: FieldRule = (value, redactor) =>
  typeof value === "string" ? redactor.name(value) : redactWire(value, redactor);

/** Where a JSON Schema speaks to people. */
const SPOKEN = new Set(["description", "title", "$comment", "default", "examples"]);

/** A tool's schema: its words, not its grammar. */
export function redactSchema(schema: unknown, redactor: Redactor): unknown {
  if (Array.isArray(schema)) return redactor.list(schema, (item) => redactSchema(item, redactor));
  if (!isRecord(schema)) return redactor.name(schema);
  return redactor.fields(schema, (name) =>
    // A property of this name is a schema itself.
    SPOKEN.has(name) && !isRecord(schema[name]) ? undefined : redactSchema,
  );
}
