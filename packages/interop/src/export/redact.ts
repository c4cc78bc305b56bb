/** Hides what must not leave the house in one text; gives the text itself where there is nothing to hide. */
export type Redact = (text: string) => string;

/** What is done to a field: it is kept, treated, or (undefined) taken for something that people or tools said. */
export type FieldRule = "keep" | ((value: unknown, redactor: Redactor) => unknown) | undefined;

/** Fields that hold what only a provider can read, wherever they stand. */
const ENCRYPTED = /^(encrypted_\w+|reasoningEncryptedContent)$/;

/** Rules by the names of fields. */
export function byName(rules: Readonly<Record<string, FieldRule>>): (name: string) => FieldRule {
  return (name) => (Object.hasOwn(rules, name) ? rules[name] : undefined);
}

/**
 * Applies a {@link Redact} to what people, models and tools said, and to nothing else: not to ids, names of types, models
 * and tools, signatures, pictures. A value in which nothing changed is given back as the same object.
 */
export class Redactor {
  readonly #redact: Redact;
  readonly #isId: (text: string) => boolean;

  /** @param isId tells the ids of entries, which are kept wherever they stand */
  constructor(redact: Redact, isId: (text: string) => boolean) {
    this.#redact = redact;
    this.#isId = isId;
  }

  /** One text. */
  text(text: string): string {
    return text === "" || this.#isId(text) ? text : this.#redact(text);
  }

  /** Every text in a value of which nothing is known, but what was encrypted. Names of fields are kept. */
  deep(value: unknown): unknown {
    if (typeof value === "string") return this.text(value);
    if (Array.isArray(value)) return this.list(value, (item) => this.deep(item));
    return this.fields(value, (name) => (ENCRYPTED.test(name) ? "keep" : undefined));
  }

  /** The fields of an object by rules; anything else is a value of which nothing is known. */
  fields(value: unknown, ruleOf: (name: string) => FieldRule): unknown {
    if (typeof value !== "object" || value === null)
      return typeof value === "string" ? this.text(value) : value;
    if (Array.isArray(value)) return this.deep(value);
    let changed = false;
    const treated = Object.entries(value).map(([name, field]): [string, unknown] => {
      const rule = ruleOf(name);
      const result = rule === "keep" ? field : rule ? rule(field, this) : this.deep(field);
      changed ||= result !== field;
      return [name, result];
    });
    return changed ? Object.fromEntries(treated) : value;
  }

  list(values: readonly unknown[], treat: (value: unknown) => unknown): readonly unknown[] {
    const treated = values.map(treat);
    return treated.some((value, index) => value !== values[index]) ? treated : values;
  }
}
