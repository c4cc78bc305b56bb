import { isRecord } from "../request/record.ts";
import { redactText } from "./redact-text.ts";

/** Hides what must not be seen in one text; gives the text itself where there is nothing to hide. */
export type Redact = (text: string) => string;

/**
 * What is done to a field: it is kept, is a name ({@link Redactor.name}), is treated, or (undefined) taken for something
 * that people or tools said.
 */
export type FieldRule = "keep" | "name" | ((value: unknown, redactor: Redactor) => unknown) | undefined;

/** What a redactor keeps, and what it puts in the place of what it cannot look into. */
export interface RedactorOptions {
  /** Tells the ids of entries, which are kept wherever they stand. Default: nothing is one. */
  isId?: (text: string) => boolean;
  /**
   * What stands for a value that is nested deeper than anything that can be written. Default: itself where its JSON has
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
export function byName(
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

  /** The name of a member of `object`; those of two keys stay two. */
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
