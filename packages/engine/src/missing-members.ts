import { ExtensionError } from "@espalier/extensions";

/**
 * An object that names a member which it lacks in one sentence when that is called, instead of a TypeError without a
 * name. Members that it has, those of every object, and what a program asks of any value to find out what it is, are as
 * they are.
 *
 * @param what the object's name in an extension, such as `ctx.ui`
 */
export function withMissingMembers<Members extends object>(what: string, members: Members): Members {
  return new Proxy(members, {
    get(target, name, receiver) {
      if (typeof name === "symbol" || name in target || ASKED_OF_ANY.has(name))
        return Reflect.get(target, name, receiver);
      return missingMember(`${what}.${name}`);
    },
  });
}

/** Stands for a member that is missing: called, made an instance of, or looked into, it throws the sentence. */
export function missingMember(name: string): object {
  const refuse = (): never => {
    throw new ExtensionError(
      "missing-member",
      `${name} is not available here; "Write an extension" in the guides lists what is.`,
    );
  };
  // A class of the extension may extend it: it is refused once an instance is made.
  return new Proxy(function missing() {}, {
    apply: refuse,
    construct: refuse,
    get: (target, key, receiver) =>
      typeof key === "symbol" || key in target || ASKED_OF_ANY.has(key)
        ? Reflect.get(target, key, receiver)
        : refuse(),
  });
}

/** Asked of any value by promises, JSON, and by what prints and compares values. */
const ASKED_OF_ANY: ReadonlySet<string> = new Set([
  "then",
  "toJSON",
  "default",
  "__esModule",
  "$$typeof",
  "nodeType",
  "asymmetricMatch",
]);
