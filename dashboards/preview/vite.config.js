import { cpSync, mkdirSync } from 'node:fs';
import { defineConfig } from 'vite';
import { nodePolyfills } from 'vite-plugin-node-polyfills';

// Icons and fonts lie where Grafana's own server has them, since the components ask there.
const FONTS = {
  'inter/files/inter-latin-400-normal.woff2': 'inter/Inter-Regular.woff2',
  'inter/files/inter-latin-500-normal.woff2': 'inter/Inter-Medium.woff2',
  'inter/files/inter-latin-400-italic.woff2': 'inter/Inter-Italic.woff2',
  'inter/files/inter-latin-500-italic.woff2': 'inter/Inter-MediumItalic.woff2',
  'roboto-mono/files/roboto-mono-latin-400-normal.woff2':
    'roboto/L0xTDF4xlVMF-BfR8bXMIhJHg45mwgGEFl0_3vrtSM1J-gEPT5Ese6hmHSh0mQ.woff2',
};

const grafanaFiles = () => ({
  name: 'grafana-files',
  writeBundle({ dir }) {
    mkdirSync(`${dir}/public/fonts/inter`, { recursive: true });
    mkdirSync(`${dir}/public/fonts/roboto`, { recursive: true });
    for (const [from, to] of Object.entries(FONTS)) {
      cpSync(`node_modules/@fontsource/${from}`, `${dir}/public/fonts/${to}`);
    }
    cpSync('node_modules/@grafana/ui/dist/public/img', `${dir}/public/build/img`, { recursive: true });
    cpSync('node_modules/@grafana/ui/dist/public/img', `${dir}/public/img`, { recursive: true });
  },
});

export default defineConfig({
  base: './',
  plugins: [nodePolyfills(), grafanaFiles()],
  resolve: {
    alias: { 'react-router-dom-v5-compat': 'react-router-dom' },
    dedupe: ['react', 'react-dom', 'rxjs', '@grafana/data', '@grafana/ui', '@grafana/runtime'],
  },
  esbuild: { jsx: 'automatic' },
  define: { 'process.env.NODE_ENV': '"production"' },
  build: { minify: false, sourcemap: false, target: 'es2022', chunkSizeWarningLimit: 99999, rollupOptions: { shimMissingExports: true } },
});
