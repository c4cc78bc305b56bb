import { defineConfig, type Plugin } from "vite";

/**
 * Builds the page as one file, with its script and style inside, so that it can be sent and its policy can name both.
 */
function inOneFile(): Plugin {
  return {
    name: "in-one-file",
    enforce: "post",
    generateBundle(_, bundle) {
      const page = Object.values(bundle).find((file) => file.fileName.endsWith(".html"));
      if (page?.type !== "asset") return;
      let html = String(page.source);
      for (const [name, file] of Object.entries(bundle)) {
        if (file.type === "chunk") {
          // Sequences that would end the script or begin a comment are escaped.
          const code = file.code.trim().replace(/<(?=\/script|!--)/gi, "\\x3C");
          html = html.replace(/<script type="module"[^>]*src="[^"]*"><\/script>/, "");
          html = html.replace("</body>", () => `<script type="module">${code}</script>\n  </body>`);
          delete bundle[name];
        } else if (name.endsWith(".css")) {
          html = html.replace(
            /<link rel="stylesheet"[^>]*>/,
            () => `<style>${String(file.source).trim()}</style>`,
          );
          delete bundle[name];
        }
      }
      page.source = html;
    },
  };
}

export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    emptyOutDir: false,
  },
  plugins: [inOneFile()],
});
