import { isPlainObject } from "@espalier/jsonl-stream";
import type { NewEntry, SessionHeader } from "./entry.ts";
import type { Entry } from "./kinds.ts";
import { type ContextMessage, fieldText, isRecord, parsedItem } from "./message.ts";
import { redactText } from "./redact-text.ts";

/** Replaces the secrets in a text; returns the same text when it has none. */
export type Redact = (text: string) => string;

/**
 * Treatment of a field: `keep` leaves it unchanged, `name` redacts it as a name ({@link Redactor.name}), a function
 * returns the new value. Undefined: every text in it is redacted ({@link Redactor.deep}).
 */
export type FieldRule = "keep" | "name" | ((value: unknown, redactor: Redactor) => unknown) | undefined;

/** Options of a redactor: texts to keep, and placeholders for values that are nested too deeply. */
export interface RedactorOptions {
  /** Returns whether a text is the id of an entry. Ids are kept everywhere. Default: no text is. */
  isId?: (text: string) => boolean;
  /**
   * Returns the placeholder for a value that is nested deeper than can be written. Default: the value itself when its
   * JSON has nothing to redact, else that JSON, redacted, as a text. A note for a value without JSON.
   */
  tooDeep?: (value: object) => unknown;
}

/** Media types whose `data` is base64. */
const MEDIA = /^(image|audio|video)\//;

/** Deepest nesting of arrays and objects that is redacted: more than the 256 levels that can be written. */
const DEEPEST = 300;

/** Shortest name of a member, in characters, that is searched for a key. */
const SHORTEST_KEY = 12;
const TOO_DEEP = "[left out: nested too deeply to be looked into]";

/** Returns the rule of a field by its name. Names without a rule get that of `otherwise`. */
function byName(
  rules: Readonly<Record<string, FieldRule>>,
  otherwise?: (name: string) => FieldRule,
): (name: string) => FieldRule {
  return (name) => (Object.hasOwn(rules, name) ? rules[name] : otherwise?.(name));
}

/** Returns one rule for several fields. */
const all = (rule: FieldRule, ...names: string[]): Record<string, FieldRule> =>
  Object.fromEntries(names.map((name) => [name, rule]));

/**
 * Applies a {@link Redact} to the words of people, models and tools. Ids, signatures and images stay unchanged. Names
 * of types, models, tools and members change only when they hold a well-known key. A value without changes is returned
 * as the same object.
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

  /** Returns one text without its secrets; an id unchanged. */
  text(text: string): string {
    return text === "" || this.#isId(text) ? text : this.#redact(text);
  }

  /**
   * Redacts a name, only when it has at least 12 characters and holds a well-known key (`redactText`). The new name has
   * only letters, digits and `_`, which every provider accepts as the name of a tool. Redacts any other value with
   * {@link deep}.
   */
  name(value: unknown): unknown {
    if (typeof value !== "string") return this.deep(value);
    if (value.length < SHORTEST_KEY || this.#isId(value) || redactText(value) === value) return value;
    const redacted = this.#redact(value);
    return redacted === value ? value : redacted.replace(/\W+/g, "_").replace(/^_|_$/g, "") || "redacted";
  }

  /** Redacts every text in a value of unknown shape, except the bytes of media. */
  deep(value: unknown): unknown {
    if (typeof value === "string") return this.text(value);
    if (Array.isArray(value)) return this.list(value, (item) => this.deep(item));
    const isMedia = isRecord(value) && typeof value["mimeType"] === "string" && MEDIA.test(value["mimeType"]);
    return this.fields(value, (name) => (isMedia && name === "data" ? keepText : undefined));
  }

  /**
   * Redacts the fields of an object by rules, and the names of its fields that hold a well-known key. Redacts a text or
   * an array with {@link deep}. Returns any other value unchanged.
   */
  fields(value: unknown, ruleOf: (name: string) => FieldRule): unknown {
    if (Array.isArray(value)) return this.deep(value);
    if (typeof value === "string") return this.text(value);
    // Other objects are refused when they are written.
    if (!isRecord(value) || !isPlainObject(value)) return value;
    return this.#inside(value, () => {
      const names = Object.keys(value);
      let changed = false;
      let isRenamed = false;
      const treated = names.map((name) => {
        const field = value[name];
        const rule = ruleOf(name);
        const result = rule === "keep" ? field : this.#field(rule, field);
        isRenamed ||= this.name(name) !== name;
        changed ||= result !== field;
        return result;
      });
      if (!changed && !isRenamed) return value;
      const written = isRenamed ? this.#members(names) : names;
      return Object.fromEntries(written.map((name, at) => [name, treated[at]]));
    });
  }

  #field(rule: Exclude<FieldRule, "keep">, field: unknown): unknown {
    if (rule === "name") return this.name(field);
    return rule ? rule(field, this) : this.deep(field);
  }

  /** Redacts the names of an object's members; two different names never become the same one. */
  #members(names: readonly string[]): string[] {
    const taken = new Set(names);
    const numbers = new Map<string, number>();
    return names.map((name) => {
      const redacted = this.name(name) as string;
      if (redacted === name) return name;
      let free = redacted;
      let number = numbers.get(redacted) ?? 0;
      do {
        number++;
        free = number === 1 ? redacted : `${redacted}_${number}`;
      } while (taken.has(free));
      numbers.set(redacted, number);
      taken.add(free);
      return free;
    });
  }

  /**
   * Applies `treat` to every item of an array; returns the same array when nothing changed. Redacts any other value with
   * {@link deep}.
   */
  list(values: unknown, treat: (value: unknown) => unknown): unknown {
    if (!Array.isArray(values)) return this.deep(values);
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
      return TOO_DEEP; // deeper than the call stack, or circular: it has no JSON
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

/** Keeps a text; redacts any other value. */
const keepText: FieldRule = (value, redactor) => (typeof value === "string" ? value : redactor.deep(value));

/** Fields of a JSON Schema with text for people. */
const SPOKEN = new Set(["description", "title", "$comment", "default", "examples"]);

const TOOL = byName({ name: "name", parameters: redactSchema });

/** Fields that hold bytes, except in a text block. */
const WIRE_BYTES = /^(data|file_data)$/;

/** Keeps a plain value; redacts an object or an array. */
const keepTextOrLook: FieldRule = (value, redactor) =>
  typeof value === "object" && value !== null ? redactWire(value, redactor) : value;

/** Fields with the arguments of a tool call. The names inside are the tool's. */
const GIVEN = /^(arguments|args|input)$/;

/** Fields of a provider's own blocks whose values are keywords of the provider. */
const NAMES = /^(type|role|status|name|format|media_?type|detail|phase)$/i;

const nameOrWire: FieldRule = (value, redactor) =>
  typeof value === "string" ? redactor.name(value) : redactWire(value, redactor);

/** Fields of a provider's own blocks that hold ids, or data that only the provider can read or has signed. */
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
  ...all("keep", "timestamp", "usage", "toolCallId", "fromId"),
  ...all("name", "role", "api", "provider", "model", "stopReason", "toolName", "customType"),
  ...all(redactWire, "native", "codex"),
  toolsRemoved: (names, redactor) => redactor.list(names, (name) => redactor.name(name)),
  toolsAdded: (tools, redactor) => redactor.list(tools, (tool) => redactor.fields(tool, TOOL)),
  ui: redactPage,
  content: redactContent,
});
const REPLACEMENT = byName({ content: redactContent });

/** Items of a provider that an import keeps. */
const DETAILS = byName(all(redactWire, "opaque", "encryptedReasoning", "codex"));

const redactStored: FieldRule = (message, redactor) => redactor.fields(message, MESSAGE);

const ENTRY = byName({
  ...all("keep", "id", "parentId", "timestamp", "targetId", "fromId", "firstKeptEntryId", "usage"),
  ...all("name", "type", "customType", "provider", "model", "modelId", "thinkingLevel", "kind"),
  ...all(redactStored, "message", "systemMessage"),
  codex: redactWire,
  content: redactContent,
  details: (details, redactor) => redactor.fields(details, DETAILS),
  replacement: (replacement, redactor) => redactor.fields(replacement, REPLACEMENT),
});

const HEADER = byName(all("keep", "type", "id", "timestamp", "parent", "importedFrom", "writer"));

/**
 * Returns an entry, or the draft of one, without secrets; the same object when it has none. Ids, signatures and images
 * stay unchanged. Names change only when they hold a well-known key. Reasoning that changes loses its signature, which
 * is valid only for the exact text.
 */
export function redactEntry<Drafted extends NewEntry | Entry>(entry: Drafted, redactor: Redactor): Drafted {
  return redactor.fields(entry, ENTRY) as Drafted;
}

/** Returns a message without secrets, by the rules of {@link redactEntry}; the same object when it has none. */
export function redactMessage<Message extends ContextMessage>(message: Message, redactor: Redactor): Message {
  return redactor.fields(message, MESSAGE) as Message;
}

/**
 * Returns the folder for a new session's header: the same folder, or its redacted form when it holds a well-known key;
 * always the same folder when `redact` is false. The same folder always gives the same text, so a search by folder
 * finds all of its sessions.
 */
export function redactFolder(folder: string, redact: Redact | false = redactText): string {
  return redact && redactText(folder) !== folder ? redact(folder) : folder;
}

/**
 * Returns a header without secrets; the same object when it has none. Its folder is redacted like any text, because
 * paths can hold names of people.
 */
export function redactHeader(header: SessionHeader, redactor: Redactor): SessionHeader {
  return redactor.fields(header, HEADER) as SessionHeader;
}

function redactContent(content: unknown, redactor: Redactor): unknown {
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
 * Returns thinking without its signature when something in it was redacted. The provider refuses a signature on changed
 * reasoning, and a signature that is JSON repeats the reasoning.
 */
function unsignedIfChanged(block: Record<string, unknown>, treated: unknown, redactor: Redactor): unknown {
  const { thinkingSignature, ...unsigned } = treated as Record<string, unknown>;
  const item = parsedItem(thinkingSignature);
  const tellsMore = item !== undefined && redactWire(item, redactor) !== item;
  return treated === block && !tellsMore ? block : unsigned;
}

/** Redacts a block in a provider's own format: keeps its ids and types, redacts its texts. */
function redactWire(value: unknown, redactor: Redactor): unknown {
  if (!isRecord(value)) return redactor.list(value, (item) => redactWire(item, redactor));
  const isText = value["type"] === "text";
  return redactor.fields(value, (name) =>
    WIRE_BYTES.test(name) && !isText ? keepTextOrLook : wireRule(name),
  );
}

/** Redacts a page's own messages: the fields that a program filled in, but not `data:` addresses, which are bytes. */
function redactPage(value: unknown, redactor: Redactor): unknown {
  if (!isRecord(value)) return redactor.list(value, (item) => redactPage(item, redactor));
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

/** Redacts a tool's schema: its texts for people, not its structure. */
function redactSchema(schema: unknown, redactor: Redactor): unknown {
  if (Array.isArray(schema)) return redactor.list(schema, (item) => redactSchema(item, redactor));
  if (!isRecord(schema)) return redactor.name(schema);
  return redactor.fields(schema, (name) =>
    // A property with this name is a schema itself.
    SPOKEN.has(name) && !isRecord(schema[name]) ? undefined : redactSchema,
  );
}
