import type { NewEntry, SessionHeader } from "./entry.ts";
import type { Entry } from "./kinds.ts";
import { type ContextMessage, fieldText, isRecord, parsedItem } from "./message.ts";
import { redactText } from "./redact-text.ts";

/** Hides what must not be seen in one text; gives the text itself where there is nothing to hide. */
export type Redact = (text: string) => string;

/**
 * Treatment of a field: it is kept, is a name ({@link Redactor.name}), is treated, or (undefined) taken for something
 * that people or tools said.
 */
export type FieldRule = "keep" | "name" | ((value: unknown, redactor: Redactor) => unknown) | undefined;

/** Options of a redactor: fields to keep, and placeholders for values it cannot look into. */
export interface RedactorOptions {
  /** Recognizes ids of entries, which are kept everywhere. Default: none. */
  isId?: (text: string) => boolean;
  /**
   * Placeholder for a value that is nested deeper than anything that can be written. Default: itself where its JSON has
   * nothing to hide, else that JSON, redacted, as a text; a note where it has none.
   */
  tooDeep?: (value: object) => unknown;
}

/** Media whose `data` are bytes. */
const MEDIA = /^(image|audio|video)\//;

/** Arrays and objects inside each other: more than the 256 that can be written. */
const DEEPEST = 300;

/** Characters of the shortest key that can be the name of a member. */
const SHORTEST_KEY = 12;
const TOO_DEEP = "[left out: nested too deeply to be looked into]";

/** Rules by the names of fields; of other names, what `otherwise` says. */
function byName(
  rules: Readonly<Record<string, FieldRule>>,
  otherwise?: (name: string) => FieldRule,
): (name: string) => FieldRule {
  return (name) => (Object.hasOwn(rules, name) ? rules[name] : otherwise?.(name));
}

/**
 * Applies a {@link Redact} to what people, models and tools said, and to nothing else: not to ids, signatures, pictures;
 * to names of types, models, tools and members only where they hold a well-known key. A value in which nothing changed is
 * given back as the same object.
 */
export class Redactor {
  readonly #redact: Redact;
  readonly #isId: (text: string) => boolean;
  readonly #tooDeep: (value: object) => unknown;
  #depth = 0;

  constructor(redact: Redact, { isId = () => false, tooDeep }: RedactorOptions = {}) {
    this.#redact = redact;
    this.#isId = isId;
    this.#tooDeep = tooDeep ?? ((value) => this.#asText(value));
  }

  /** One text. */
  text(text: string): string {
    return text === "" || this.#isId(text) ? text : this.#redact(text);
  }

  /** A name; one that holds a key becomes a word of letters, digits and `_`, which every provider takes for a tool's. */
  name(value: unknown): unknown {
    if (typeof value !== "string" || this.#isId(value)) return this.deep(value);
    if (value.length < SHORTEST_KEY || redactText(value) === value) return value;
    const redacted = this.#redact(value);
    return redacted === value ? value : redacted.replace(/\W+/g, "_").replace(/^_|_$/g, "") || "redacted";
  }

  /** Every text in a value of which nothing is known, but the bytes of media. */
  deep(value: unknown): unknown {
    if (typeof value === "string") return this.text(value);
    if (Array.isArray(value)) return this.list(value, (item) => this.deep(item));
    const isMedia = isRecord(value) && typeof value["mimeType"] === "string" && MEDIA.test(value["mimeType"]);
    return this.fields(value, (name) => (isMedia && name === "data" ? keepText : undefined));
  }

  /** The fields of an object by rules; anything else is a value of which nothing is known. */
  fields(value: unknown, ruleOf: (name: string) => FieldRule): unknown {
    if (Array.isArray(value)) return this.deep(value);
    if (typeof value === "string") return this.text(value);
    // Anything but a plain object is refused when it is written.
    if (!isRecord(value) || !isPlain(value)) return value;
    return this.#inside(value, () => {
      let changed = false;
      const treated = Object.entries(value).map(([name, field]): [string, unknown] => {
        const rule = ruleOf(name);
        const result = rule === "keep" ? field : this.#field(rule, field);
        const member = name.length < SHORTEST_KEY ? name : this.#member(name, value);
        changed ||= result !== field || member !== name;
        return [member, result];
      });
      return changed ? Object.fromEntries(treated) : value;
    });
  }

  #field(rule: Exclude<FieldRule, "keep">, field: unknown): unknown {
    if (rule === "name") return this.name(field);
    return rule ? rule(field, this) : this.deep(field);
  }

  /** Redacts the name of a member of `object`; two different names never become the same one. */
  #member(name: string, object: Record<string, unknown>): string {
    const redacted = this.name(name) as string;
    if (redacted === name) return name;
    const alike = Object.keys(object).filter((other) => this.name(other) === redacted);
    const number = alike.indexOf(name) + 1;
    return number === 1 ? redacted : `${redacted}_${number}`;
  }

  /** Every value by `treat`; the same array where nothing changed. */
  list(values: readonly unknown[], treat: (value: unknown) => unknown): unknown {
    return this.#inside(values, () => {
      const treated = values.map(treat);
      return treated.some((value, index) => value !== values[index]) ? treated : values;
    });
  }

  #asText(value: object): unknown {
    let text: string;
    try {
      text = JSON.stringify(value);
    } catch {
      return TOO_DEEP; // deeper than the call stack, or in itself: there is nothing else to say of it
    }
    const redacted = this.#redact(text);
    return redacted === text ? value : redacted;
  }

  #inside(value: object, treat: () => unknown): unknown {
    if (this.#depth >= DEEPEST) return this.#tooDeep(value);
    this.#depth += 1;
    try {
      return treat();
    } finally {
      this.#depth -= 1;
    }
  }
}

/** A field that is kept when it is a text, and looked into when it is more. */
const keepText: FieldRule = (value, redactor) => (typeof value === "string" ? value : redactor.deep(value));

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Fields of a JSON Schema with text for people. */
const SPOKEN = new Set(["description", "title", "$comment", "default", "examples"]);

const TOOL = byName({ name: "name", parameters: redactSchema });

/** Fields that hold bytes, unless the block says that they are text. */
const WIRE_BYTES = /^(data|file_data)$/;

/** A field that is kept when it is a text, and looked into when it is more. */
const keepTextOrLook: FieldRule = (value, redactor) =>
  typeof value === "object" && value !== null ? redactWire(value, redactor) : value;

/** Arguments of a tool call: their names are the tool's. */
const GIVEN = /^(arguments|args|input)$/;

/** Fields of a provider's own blocks whose words are the provider's. */
const NAMES = /^(type|role|status|name|format|media_?type|detail|phase)$/i;

const nameOrWire: FieldRule = (value, redactor) =>
  typeof value === "string" ? redactor.name(value) : redactWire(value, redactor);

/** Fields of a provider's own blocks that only the provider can read, or vouches for, and ids. */
const SEALED =
  /^(encrypted_\w+|reasoningEncryptedContent|redactedData|signature|\w+Signature|\w*_id|id|\w+Id)$/i;
const COMMON = { type: "name", native: redactWire } as const;

const rulesOf = new Map([
  ["text", byName({ ...COMMON, textSignature: "keep" }, wireRule)],
  ["image", byName({ ...COMMON, data: "keep", mimeType: "name" }, wireRule)],
  ["toolCall", byName({ ...COMMON, id: "keep", name: "name", thoughtSignature: "keep" }, wireRule)],
  ["thinking", byName({ ...COMMON, redacted: "keep", thinkingSignature: "keep" }, wireRule)],
]);
const unknownBlock = byName(COMMON, wireRule);

const MESSAGE = byName({
  role: "name",
  timestamp: "keep",
  api: "name",
  provider: "name",
  model: "name",
  usage: "keep",
  stopReason: "name",
  toolCallId: "keep",
  toolName: "name",
  customType: "name",
  fromId: "keep",
  toolsRemoved: (names, redactor) =>
    Array.isArray(names) ? redactor.list(names, (name) => redactor.name(name)) : redactor.deep(names),
  toolsAdded: (tools, redactor) =>
    Array.isArray(tools) ? redactor.list(tools, (tool) => redactor.fields(tool, TOOL)) : redactor.deep(tools),
  native: redactWire,
  codex: redactWire,
  ui: redactPage,
  content: redactContent,
});
const REPLACEMENT = byName({ content: redactContent });

/** Items of a provider that an import brings along. */
const DETAILS = byName({ opaque: redactWire, encryptedReasoning: redactWire, codex: redactWire });

const ENTRY = byName({
  codex: redactWire,
  type: "name",
  id: "keep",
  parentId: "keep",
  timestamp: "keep",
  targetId: "keep",
  fromId: "keep",
  firstKeptEntryId: "keep",
  customType: "name",
  provider: "name",
  model: "name",
  modelId: "name",
  thinkingLevel: "name",
  kind: "name",
  usage: "keep",
  content: redactContent,
  details: (details, redactor) => redactor.fields(details, DETAILS),
  message: (message, redactor) => redactor.fields(message, MESSAGE),
  systemMessage: (message, redactor) => redactor.fields(message, MESSAGE),
  replacement: (replacement, redactor) => redactor.fields(replacement, REPLACEMENT),
});

const HEADER = byName({
  type: "keep",
  id: "keep",
  timestamp: "keep",
  parent: "keep",
  importedFrom: "keep",
  writer: "keep",
});

/**
 * An entry, or the draft of one, without what must not be seen; the same object when there was nothing. Ids, signatures and
 * pictures stay as they are, and names unless they hold a well-known key. Where reasoning changes, its signature goes, since it vouches for every letter of it.
 */
export function redactEntry<Drafted extends NewEntry | Entry>(entry: Drafted, redactor: Redactor): Drafted {
  return redactor.fields(entry, ENTRY) as Drafted;
}

/** A message without what must not be seen; the same object when there was nothing. */
export function redactMessage<Message extends ContextMessage>(message: Message, redactor: Redactor): Message {
  return redactor.fields(message, MESSAGE) as Message;
}

/**
 * The folder that a new session's header names: the folder, unless it holds a well-known key. The same folder always gives
 * the same text, so that its later sessions are found.
 */
export function redactFolder(folder: string, redact: Redact | false = redactText): string {
  return redact && redactText(folder) !== folder ? redact(folder) : folder;
}

/** A header without secrets: paths hold names of people. */
export function redactHeader(header: SessionHeader, redactor: Redactor): SessionHeader {
  return redactor.fields(header, HEADER) as SessionHeader;
}

/** The content of a message: text, or blocks. */
function redactContent(content: unknown, redactor: Redactor): unknown {
  if (!Array.isArray(content)) return redactor.deep(content);
  return redactor.list(content, (block) =>
    isRecord(block) ? redactBlock(block, redactor) : redactor.deep(block),
  );
}

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

/** Rules of one format for a block: the provider's own words for ids and types, and text among them. */
function redactWire(value: unknown, redactor: Redactor): unknown {
  if (Array.isArray(value)) return redactor.list(value, (item) => redactWire(item, redactor));
  if (!isRecord(value)) return redactor.deep(value);
  const isText = value["type"] === "text";
  return redactor.fields(value, (name) =>
    WIRE_BYTES.test(name) && !isText ? keepTextOrLook : wireRule(name),
  );
}

/** Fields of a page's own messages that hold what a program put there; addresses of `data:` are bytes. */
function redactPage(value: unknown, redactor: Redactor): unknown {
  if (Array.isArray(value)) return redactor.list(value, (item) => redactPage(item, redactor));
  if (!isRecord(value)) return redactor.deep(value);
  return redactor.fields(value, (name) => {
    if (name === "data" || name === "output" || name === "metadata") return undefined;
    if (name === "url" && String(value[name]).startsWith("data:")) return "keep";
    return name === "parts" || name === "set" ? redactPage : wireRule(name);
  });
}

function wireRule(name: string): FieldRule {
  if (GIVEN.test(name)) return undefined;
  if (NAMES.test(name)) return nameOrWire;
  return SEALED.test(name) ? keepTextOrLook : redactWire;
}

/** A tool's schema: its words, not its grammar. */
function redactSchema(schema: unknown, redactor: Redactor): unknown {
  if (Array.isArray(schema)) return redactor.list(schema, (item) => redactSchema(item, redactor));
  if (!isRecord(schema)) return redactor.name(schema);
  return redactor.fields(schema, (name) =>
    // A property of this name is a schema itself.
    SPOKEN.has(name) && !isRecord(schema[name]) ? undefined : redactSchema,
  );
}
