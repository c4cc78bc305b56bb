import { ExtensionError } from "../extension-error.ts";

/** Packages of the Pi agent under its present and its former scope; an extension that runs them needs Pi around it. */
const FOREIGN_PACKAGE = /^(?:@earendil-works\/[^/]+|@mariozechner\/pi-[^/]+)/;

/**
 * The modules a host lends to `file`, refusing foreign packages that are not among them: even where such a package is
 * installed, it would bring a second agent into the process. The loader asks `name in modules` for every import that is
 * left once types are gone, so `import type` needs nothing and a lazy import is refused when it runs.
 */
export function refuseForeignPackages(
  file: string,
  modules: Record<string, unknown>,
): Record<string, unknown> {
  return new Proxy(modules, {
    has(lent, name) {
      if (Object.hasOwn(lent, name)) return true;
      const [foreign] = (typeof name === "string" && FOREIGN_PACKAGE.exec(name)) || [];
      if (foreign === undefined) return false;
      throw new ExtensionError(
        "foreign-package",
        `${file} imports ${foreign}, which belongs to another agent and is not available here; import its types only, and use what (event, ctx) offers in its place.`,
        { owner: file },
      );
    },
  });
}
