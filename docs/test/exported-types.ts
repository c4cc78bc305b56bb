import { createRequire } from "node:module";
import ts from "typescript";

const { resolve } = createRequire(import.meta.url);
/** The notation leaves out the package that a folder of names is in. */
const indexOf = (door: string): string =>
  resolve(`@espalier/${door.replace(/^policies/, "compaction/policies").replace("policies/node", "node")}`);

const OPTIONS: ts.CompilerOptions = {
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  target: ts.ScriptTarget.ES2023,
  allowImportingTsExtensions: true,
  noEmit: true,
  strict: true,
  types: [],
  // Enough for what is looked up: utility types such as Pick, nothing of the platform.
  lib: ["lib.es5.d.ts"],
};

/** Reads the workspace's own sources alone: no name that is looked up comes from elsewhere, and the rest is large. */
function workspaceHost(): ts.CompilerHost {
  const host = ts.createCompilerHost(OPTIONS);
  host.resolveModuleNameLiterals = (literals, from, redirected, options) =>
    literals.map(({ text }) =>
      /^(\.|@espalier\/)/.test(text)
        ? ts.resolveModuleName(text, from, options, host, undefined, redirected, ts.ModuleKind.ESNext)
        : { resolvedModule: undefined },
    );
  return host;
}

/** The types that packages export, read from their sources as a compiler reads them. */
export class ExportedTypes {
  readonly #program: ts.Program;
  readonly #checker: ts.TypeChecker;

  constructor(doors: readonly string[]) {
    this.#program = ts.createProgram(doors.map(indexOf), OPTIONS, workspaceHost());
    this.#checker = this.#program.getTypeChecker();
  }

  /** Whether a package exports a type of this name that has these members, one inside the other. */
  has(door: string, [name, ...members]: readonly string[]): boolean {
    const source = this.#program.getSourceFile(indexOf(door));
    const module = source && this.#checker.getSymbolAtLocation(source);
    const exported =
      module && this.#checker.getExportsOfModule(module).find((symbol) => symbol.name === name);
    if (!exported) return false;
    const isAlias = (exported.flags & ts.SymbolFlags.Alias) !== 0;
    const declared = isAlias ? this.#checker.getAliasedSymbol(exported) : exported;
    if ((declared.flags & ts.SymbolFlags.Type) === 0) return false;
    let type = this.#checker.getDeclaredTypeOfSymbol(declared);
    for (const member of members) {
      // Of a union, the members that any of its parts has.
      const parts = type.isUnion() ? type.types : [type];
      const property = parts.flatMap((part) => part.getProperty(member) ?? [])[0];
      if (!property) return false;
      type = this.#checker.getTypeOfSymbol(property);
    }
    return true;
  }
}
