import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const server = "http://127.0.0.1:8000";

// The server publishes `dist` under /static/app/ and renders dist/index.html itself. No source maps and no manifest are
// written, since everything in `dist` is public.
export default defineConfig(({ command }) => ({
  base: command === "serve" ? "/" : "/static/app/",
  plugins: [react(), tailwindcss()],
  resolve: { alias: { "@": new URL("./src", import.meta.url).pathname } },
  // Fonts as data: addresses would be refused by the page's content security policy.
  build: { outDir: "dist", assetsInlineLimit: 0, sourcemap: false, manifest: false, target: "es2022" },
  server: {
    host: "127.0.0.1",
    proxy: {
      "/api": server,
      "/ws": { target: server, ws: true },
      "^/sign-in/.+": server,
      "/admin": server,
    },
  },
  test: {
    environment: "jsdom",
    globals: true,
    setupFiles: ["src/test-setup.ts"],
    include: ["src/**/*.test.{ts,tsx}"],
  },
}));
