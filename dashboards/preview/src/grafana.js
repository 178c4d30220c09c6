// What a Grafana server's page sets up before it draws: services, registries, theme.
import {
  FieldType, booleanOverrideProcessor, createTheme, displayNameOverrideProcessor, identityOverrideProcessor, numberOverrideProcessor,
  standardFieldConfigEditorRegistry, standardTransformers, standardTransformersRegistry, stringOverrideProcessor,
  thresholdsOverrideProcessor, unitOverrideProcessor, valueMappingsOverrideProcessor, LoadingState,
} from '@grafana/data';
import * as runtime from '@grafana/runtime';
import { sceneGraph } from '@grafana/scenes';
import { of } from 'rxjs';
import { catchError, map } from 'rxjs/operators';

export const theme = createTheme({ colors: { mode: 'dark' } });

/** Registers the one data source that answers and the plugins; `scene()` is the scene that variables are looked up in. */
export function setUp({ source, instances, plugin, scene }) {
  runtime.config.theme2 = theme;
  runtime.config.theme = theme.v1;
  runtime.setDataSourceSrv({
    get: async () => source, reload() {}, registerRuntimeDataSource() {},
    getList: ({ pluginId } = {}) => instances.filter((one) => !pluginId || one.type === pluginId),
    getInstanceSettings: (reference) => instances.find((one) => one.uid === (reference?.uid ?? reference)) ?? instances[0],
  });
  runtime.setRunRequest((from, request) => from.query(request).pipe(
    map(({ data }) => ({ ...answered(request), state: LoadingState.Done, series: data })),
    catchError((error) => of({ ...answered(request), state: LoadingState.Error, series: [], errors: [{ message: error.message }], error: { message: error.message } })),
  ));
  runtime.setTemplateSrv({
    getVariables: () => [], containsTemplate: (text) => /\$/.test(text ?? ''), updateTimeRange() {},
    replace: (text, scopedVars, format) => sceneGraph.interpolate(scopedVars?.__sceneObject?.value?.valueOf() ?? scene(), text, scopedVars, format),
  });
  runtime.setPluginImportUtils({ importPanelPlugin: async (id) => plugin(id), getPanelPluginFromCache: plugin });
  runtime.setBackendSrv({ get: async () => ({}), fetch: () => of({ data: {} }) });
  runtime.setEchoSrv?.({ addEvent() {}, addBackend() {}, flush() {} });
  runtime.setPluginLinksHook?.(() => ({ links: [], isLoading: false }));
  runtime.setPluginComponentsHook?.(() => ({ components: [], isLoading: false }));
  runtime.setPluginComponentHook?.(() => ({ component: null, isLoading: false }));
  runtime.setPluginFunctionsHook?.(() => ({ functions: [], isLoading: false }));
  runtime.setChromeHeaderHeightHook?.(() => 0);
  runtime.setReturnToPreviousHook?.(() => () => {});
  standardFieldConfigEditorRegistry.setInit(standardOptions);
  standardTransformersRegistry.setInit(transformers);
}

const answered = (request) => ({ timeRange: request.range, request, annotations: [] });

/** By id, since some stand there under an older name too. */
const transformers = () => [...new Map(Object.values(standardTransformers).map((one) => [one.id, one])).values()].map((one) => ({
  id: one.id, name: one.name, transformation: async () => one, editor: () => null, imageDark: '', imageLight: '',
}));

const option = (id, process, more = {}) => ({
  id, path: id, name: id, process, editor: () => null, override: () => null, shouldApply: () => true, settings: {}, category: ['Standard options'], ...more,
});

const DEFAULT_THRESHOLDS = { mode: 'absolute', steps: [{ value: -Infinity, color: 'green' }, { value: 80, color: 'red' }] };

const standardOptions = () => [
  option('unit', unitOverrideProcessor),
  option('min', numberOverrideProcessor),
  option('max', numberOverrideProcessor),
  option('decimals', numberOverrideProcessor),
  option('displayName', displayNameOverrideProcessor),
  option('noValue', stringOverrideProcessor),
  option('description', stringOverrideProcessor),
  option('thresholds', thresholdsOverrideProcessor, { shouldApply: (field) => field.type === FieldType.number, defaultValue: DEFAULT_THRESHOLDS }),
  option('mappings', valueMappingsOverrideProcessor),
  option('color', identityOverrideProcessor),
  option('filterable', booleanOverrideProcessor),
  option('fieldMinMax', booleanOverrideProcessor),
  option('links', identityOverrideProcessor),
  option('actions', identityOverrideProcessor),
];

/** Options of a panel type's own, with what Grafana takes where the board says nothing. */
export const customOptions = (defaults) => ({
  useCustomConfig: (builder) => {
    for (const [id, defaultValue] of Object.entries(defaults)) {
      builder.addCustomEditor(option(id, identityOverrideProcessor, { defaultValue, category: ['Own options'] }));
    }
  },
});
