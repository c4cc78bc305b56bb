/** Where a value comes from, each above those before it. */
export type SettingsOrigin = "default" | "user" | "project" | "environment" | "flag";

/** What one place says, as it stands there. */
export interface SettingsLayer {
  origin: SettingsOrigin;
  /** The file; null for what is none. */
  file: string | null;
  /** Keys are spelt as in the schema, and may be anything. */
  values: Readonly<Record<string, unknown>>;
  /** The variable that a key was read from, for those of the environment. */
  variables?: Readonly<Record<string, string>>;
}

/** `tail_keep_size` as `tailKeepSize`. In linear time, also for a key of underscores alone. */
export const camelCase = (key: string): string =>
  key.replace(/(?<!_)_+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
