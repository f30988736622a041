import { defineConfig } from 'vite'

// No inlined assets: the page's policy allows nothing inline.
export default defineConfig({
  base: '/console/',
  build: {
    outDir: '../src/tickwork/api/console_build',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
  },
})
