/**
 * - `malformed`: not of the format; passed over, or read as far as it could be
 * - `dropped`: understood, and the neutral messages have no place for it
 * - `changed`: kept, and a request will say it in another way
 * - `opaque`: kept as it is, and only its own format will see it again
 */
export type FormatIssueKind = "malformed" | "dropped" | "changed" | "opaque";

/** One thing that a conversation in another format said and its neutral messages do not say in the same way. */
export interface FormatIssue {
  kind: FormatIssueKind;
  /** The field, block type or role it is about. */
  field: string;
  /** Where it was first met, as in `messages[3].content[0]`. */
  path: string;
  /** How often. */
  count: number;
  message: string;
}

/** Collects issues: one for each kind and field, however often it is met, so that a long history has a short report. */
export class FormatIssues {
  readonly #issues = new Map<string, FormatIssue>();

  /** @param message one sentence; that of the first time stands */
  add(kind: FormatIssueKind, field: string, path: string, message: string): void {
    const key = `${kind} ${field} ${message}`;
    const known = this.#issues.get(key);
    if (known) known.count++;
    else this.#issues.set(key, { kind, field, path, count: 1, message });
  }

  /** Fields that have no place: for caching and for the provider's own bookkeeping. */
  dropped(fields: Iterable<string>, path: string): void {
    for (const field of fields) {
      this.add(
        "dropped",
        shown(field),
        path,
        `\`${shown(field)}\` has no place in a session; it is left out.`,
      );
    }
  }

  /** A block that only its own format can read. */
  opaque(type: unknown, path: string): void {
    const field = shown(type);
    this.add("opaque", field, path, `A ${field} is kept as it is; only its own format sees it again.`);
  }

  get isEmpty(): boolean {
    return this.#issues.size === 0;
  }

  list(): FormatIssue[] {
    return [...this.#issues.values()];
  }
}

/** Names come from outside: short, and printable. */
function shown(name: unknown): string {
  return typeof name === "string" ? name.replace(/[^\w.:/ -]+/g, "?").slice(0, 64) || "(empty)" : "(no name)";
}
