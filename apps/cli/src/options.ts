import { resolve } from "node:path";
import { STORE_SCHEMES } from "@espalier/engine";
import { Option } from "commander";

/** Choices of an option, or a parser. `before` is the parser's result for the same option earlier in the line. */
type OptionValues = readonly string[] | ((text: string, before?: never) => unknown);

/**
 * Flags and description of an option; its values (absent for a plain text or a flag); a default, a requirement, the
 * choices of a parsed value, or an environment variable.
 */
export type OptionShape = readonly [
  flags: string,
  description: string,
  values?: OptionValues | undefined,
  more?: { default: string } | { isRequired: true } | { choices: readonly string[] } | { env: string },
];

type CamelCase<Name> = Name extends `${infer Word}-${infer Rest}`
  ? `${Word}${Capitalize<CamelCase<Rest>>}`
  : Name;
type OptionKey<Flags> = Flags extends `${string}--${infer Name} ${string}` | `${string}--${infer Name}`
  ? CamelCase<Name extends `no-${infer Positive}` ? Positive : Name>
  : never;
type OptionValue<Shape extends OptionShape> = Shape[2] extends (...given: never) => infer Value
  ? Value
  : Shape[2] extends readonly (infer Choice)[]
    ? Choice
    : Shape[0] extends `${string}<${string}`
      ? string
      : boolean;

/** Options that always have a value. */
type AlwaysSet =
  | readonly [`--no-${string}`, ...unknown[]]
  | readonly [unknown, unknown, unknown, { default: string } | { isRequired: true }];

/** Parsed values by option name, with the types that the flags and parsers declare. */
export type OptionsOf<Shapes extends readonly OptionShape[]> = {
  [Shape in Exclude<Shapes[number], AlwaysSet> as OptionKey<Shape[0]>]?: OptionValue<Shape>;
} & { [Shape in Extract<Shapes[number], AlwaysSet> as OptionKey<Shape[0]>]: OptionValue<Shape> };

/** Makes an option for the command-line parser from its declaration. */
export function optionOf([flags, description, values, more]: OptionShape): Option {
  const option = new Option(flags, description);
  const { choices, ...rest } = { choices: typeof values === "function" ? undefined : values, ...more };
  if (choices) option.choices(choices);
  if (typeof values === "function") option.argParser(values as (text: string) => unknown);
  if ("env" in rest) option.env(rest.env);
  if ("default" in rest) option.default(rest.default);
  return "isRequired" in rest ? option.makeOptionMandatory() : option;
}

/** Returns the fields that have a value. An optional property may be absent, but not undefined. */
export const given = <Fields extends object>(fields: Fields) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Key in keyof Fields]?: Exclude<Fields[Key], undefined>;
  };

/** Options of every command. */
export const globalOptions = [
  ["--json", "print JSON and nothing else"],
  [
    "--extension <file>",
    "load an extension for this call; repeatable",
    (file: string, files: string[] = []) => [...files, resolve(file)],
  ],
  [
    "--on-busy <choice>",
    "what to do while another process writes the session",
    ["error", "read-only", "fork", "share"],
  ],
  ["--trace", "print on stderr how much of a session's file was read to open it"],
  ["--summarizer <name>", "writer of summaries: extractive, anthropic, anthropic:MODEL or openai:MODEL"],
  ["--fallback", "use the extractive summarizer when the named one fails"],
  // An address may contain a password, so it is never printed.
  [
    "--store <address>",
    `store of the sessions: ${STORE_SCHEMES.map((scheme) => `${scheme}…`).join(", ")} instead of files`,
    undefined,
    { env: "ESPALIER_STORE" },
  ],
] as const;
