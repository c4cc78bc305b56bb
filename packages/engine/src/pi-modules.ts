import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import type { ContextMessage } from "@espalier/session-tree";
import { renderTranscript } from "@espalier/summarizer";
import { espalierHome } from "./home.ts";
import { missingMember } from "./missing-members.ts";

/** An import of one of Pi's packages, types among them: under the present scope, or the former one. */
const IMPORT_OF_PI = /\bfrom\s*["'](?:@earendil-works|@mariozechner)\/pi-[\w/-]+["']/;

/** Whether an extension was written for Pi, by what its source imports. */
export const isOfPi = (source: string): boolean => IMPORT_OF_PI.test(source);

/**
 * Modules that an extension of Pi imports: what can be had without Pi is there, and each other export throws a sentence
 * with its name once it is used. Typebox is lent only where none is installed beside the extension.
 */
export function piModules(file: string): Record<string, unknown> {
  const modules: Record<string, unknown> = {};
  for (const [name, members] of Object.entries(MODULES)) {
    const module = lent(name, members);
    for (const scope of ["@earendil-works", "@mariozechner"]) modules[`${scope}/${name}`] = module;
  }
  for (const name of ["typebox", "@sinclair/typebox"])
    if (!isInstalled(name, file)) modules[name] = lent(name, { Type });
  return modules;
}

function isInstalled(name: string, file: string): boolean {
  try {
    createRequire(resolve(file)).resolve(name);
    return true;
  } catch {
    // What cannot be resolved is not there; the reason is of no matter.
    return false;
  }
}

/** A module whose missing exports are named when they are used. */
function lent(name: string, members: Record<string, unknown>): object {
  const isMissing = (target: object, key: string | symbol) =>
    typeof key === "string" && !(key in target) && key !== "default" && key !== "then";
  return new Proxy({ __esModule: true, ...members } as Record<string, unknown>, {
    // The loader looks before it takes.
    has: (target, key) => key in target || isMissing(target, key),
    get: (target, key, receiver) =>
      isMissing(target, key)
        ? missingMember(`${String(key)} of ${name}`)
        : Reflect.get(target, key, receiver),
  });
}

const OPTIONAL = Symbol("optional");

/** Schemas as typebox writes them: JSON Schema. An optional one is left out of `required`. */
const Type = {
  String: (options = {}) => ({ ...options, type: "string" }),
  Number: (options = {}) => ({ ...options, type: "number" }),
  Integer: (options = {}) => ({ ...options, type: "integer" }),
  Boolean: (options = {}) => ({ ...options, type: "boolean" }),
  Null: (options = {}) => ({ ...options, type: "null" }),
  Any: (options = {}) => ({ ...options }),
  Unknown: (options = {}) => ({ ...options }),
  Literal: (value: unknown, options = {}) => ({ ...options, const: value, type: typeof value }),
  Array: (items: object, options = {}) => ({ ...options, type: "array", items }),
  Union: (anyOf: readonly object[], options = {}) => ({ ...options, anyOf }),
  Enum: (values: object, options = {}) => ({ ...options, enum: Object.values(values) }),
  Record: (_: object, additionalProperties: object, options = {}) => ({
    ...options,
    type: "object",
    additionalProperties,
  }),
  Optional: (schema: object) => Object.defineProperty({ ...schema }, OPTIONAL, { value: true }),
  Unsafe: (schema: object = {}) => ({ ...schema }),
  Object: (properties: Record<string, object>, options = {}) => ({
    ...options,
    type: "object",
    required: Object.keys(properties).filter((key) => !(OPTIONAL in properties[key]!)),
    properties,
  }),
};

const AI = {
  Type,
  StringEnum: (values: readonly string[], options = {}) => ({
    ...options,
    type: "string",
    enum: [...values],
  }),
  uuidv7: randomUUID,
};

/** What Pi's packages export and what needs nothing of Pi. */
const MODULES: Readonly<Record<string, Record<string, unknown>>> = {
  "pi-coding-agent": {
    CONFIG_DIR_NAME: ".espalier",
    getAgentDir: espalierHome,
    defineTool: (tool: unknown) => tool,
    // `serializeConversation` reads the neutral messages as they are.
    convertToLlm: (messages: readonly ContextMessage[]) => messages.filter(({ role }) => role !== "system"),
    serializeConversation: (messages: readonly ContextMessage[]) => renderTranscript(messages),
  },
  "pi-agent-core": {},
  "pi-tui": {},
  "pi-ai": AI,
  "pi-ai/compat": AI,
  "pi-ai/oauth": {},
  "pi-ai/providers/all": {},
};
