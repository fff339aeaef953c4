package api

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"cloister/host/cosign"
	"cloister/shared/commandline"
	"cloister/shared/wire"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxOps bounds the operation names that become labels. The rest, and every name without a
// success, count as "other".
const maxOps = 512

const other = "other"

var endpointNames = [...]string{wire.EndpointSubmit: "submit", wire.EndpointQuery: "query", wire.EndpointProxy: "proxy", wire.EndpointBoot: "boot"}

// phaseNames are the labels of Reply.Phases, in order.
var phaseNames = [...]string{"stamp", "decide", "execute", "store"}

var seconds = []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30}

// Metrics are the host's counters. It is a link.Observer and a cosign.Observer.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	phases   [len(phaseNames)]prometheus.Observer
	entries  prometheus.Histogram
	bytes    prometheus.Counter
	batches  *prometheus.CounterVec
	store    *prometheus.HistogramVec
	failures *prometheus.CounterVec
	refused  prometheus.Counter
	// refusedCredentials counts requests that the host refused because the enclave had refused their credential for a while.
	refusedCredentials prometheus.Counter
	webhooks           *prometheus.HistogramVec
	rounds             *prometheus.CounterVec
	round              prometheus.Histogram

	mu   sync.RWMutex
	ops  map[opKey]*opMetrics
	size int
}

type opKey struct {
	endpoint wire.Endpoint
	op       string
}

// opMetrics are the resolved counters of one operation: looking labels up by name costs more than
// counting.
type opMetrics struct {
	took     prometheus.Observer
	statuses sync.Map // int to prometheus.Counter
}

// NewMetrics makes the counters in a registry of their own.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		ops:      map[opKey]*opMetrics{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cloister_requests_total",
			Help: "Requests by door, operation and HTTP status. Operations that never had success are \"other\"."}, []string{"door", "op", "status"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cloister_request_seconds",
			Help: "Time from the body's first byte to the reply's last.", Buckets: seconds}, []string{"door", "op"}),
		entries: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cloister_batch_entries",
			Help: "Entries in one batch.", Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "cloister_batch_bytes_total",
			Help: "Sealed bytes in batches."}),
		batches: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cloister_batches_total",
			Help: "Batches by the store's verdict: stored, conflict, superseded."}, []string{"verdict"}),
		store: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cloister_store_seconds",
			Help: "Time the store took for one question of the enclave.", Buckets: seconds}, []string{"question"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cloister_store_failures_total",
			Help: "Questions of the enclave that the store could not answer."}, []string{"question"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "cloister_address_refusals_total",
			Help: "Requests refused because their address had sent too many."}),
		refusedCredentials: prometheus.NewCounter(prometheus.CounterOpts{Name: "cloister_credential_refusals_total",
			Help: "Requests refused by the host because the enclave had said that it refuses their credential for a while."}),
		webhooks: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cloister_webhook_seconds",
			Help: "Attempts to deliver a webhook, by what came of them: delivered, later, dead, gone.", Buckets: seconds}, []string{"result"}),
		rounds: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cloister_log_rounds_total",
			Help: "Checkpoints that the enclave wanted cosigned, by range and by what came of them: quorum, short, lost, failed."}, []string{"range", "result"}),
		round: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cloister_log_quorum_seconds",
			Help: "Time from the enclave's question to a quorum of cosignatures.", Buckets: seconds}),
	}
	phases := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cloister_phase_seconds",
		Help: "Time a request spent in each phase, as the enclave says.", Buckets: seconds}, []string{"phase"})
	for i, name := range phaseNames {
		m.phases[i] = phases.WithLabelValues(name)
	}
	// Alerts are about increases, so counters must begin at 0.
	for _, verdict := range []string{"stored", "conflict", "superseded"} {
		m.batches.WithLabelValues(verdict)
	}
	for _, result := range []string{"delivered", "later", "dead", "gone"} {
		m.webhooks.WithLabelValues(result)
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "cloister_host_info", Help: "1, with the release of this host.",
		ConstLabels: prometheus.Labels{"release": commandline.Release}}, func() float64 { return 1 }))
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(m.requests, m.took, phases, m.entries, m.bytes, m.batches, m.store, m.failures, m.refused, m.refusedCredentials, m.webhooks, m.rounds, m.round)
	return m
}

// Batch counts a batch, its entries and its bytes, by the store's verdict.
func (m *Metrics) Batch(entries, bytes int, verdict wire.Verdict) {
	name := map[wire.Verdict]string{wire.VerdictStored: "stored", wire.VerdictConflict: "conflict", wire.VerdictSuperseded: "superseded"}[verdict]
	m.batches.WithLabelValues(name).Inc()
	m.entries.Observe(float64(entries))
	m.bytes.Add(float64(bytes))
}

// Question counts one operation on the store.
func (m *Metrics) Question(question string, took time.Duration, failed bool) {
	m.store.WithLabelValues(question).Observe(took.Seconds())
	failure := m.failures.WithLabelValues(question) // makes the counter before the first failure: see NewMetrics
	if failed {
		failure.Inc()
	}
}

// Webhook counts one attempt to deliver a webhook.
func (m *Metrics) Webhook(result string, took time.Duration) {
	m.webhooks.WithLabelValues(result).Observe(took.Seconds())
}

// Round counts one round of cosigning.
func (m *Metrics) Round(in wire.Range, r cosign.Result, took time.Duration) {
	for _, each := range cosign.Results {
		m.rounds.WithLabelValues(strconv.Itoa(int(in)), string(each)) // makes the counter before the first such round: see NewMetrics
	}
	m.rounds.WithLabelValues(strconv.Itoa(int(in)), string(r)).Inc()
	if r == cosign.Quorum {
		m.round.Observe(took.Seconds())
	}
}

// observeCall counts one request that reached the link.
func (m *Metrics) observeCall(endpoint wire.Endpoint, op string, status int, took time.Duration, phases []uint32) {
	o, key := m.operation(endpoint, op, status < 400)
	o.took.Observe(took.Seconds())
	counter, ok := o.statuses.Load(status)
	if !ok {
		counter, _ = o.statuses.LoadOrStore(status, m.requests.WithLabelValues(endpointNames[key.endpoint], key.op, statusText(status)))
	}
	counter.(prometheus.Counter).Inc()
	for i, us := range phases[:min(len(phases), len(m.phases))] {
		m.phases[i].Observe(float64(us) / 1e6)
	}
}

// statusText is the label of a status; it bounds the labels to the codes of HTTP.
func statusText(status int) string {
	if http.StatusText(status) == "" && status != statusClosed {
		return other
	}
	return string([]byte{byte('0' + status/100), byte('0' + status/10%10), byte('0' + status%10)})
}

func (m *Metrics) operation(endpoint wire.Endpoint, op string, success bool) (*opMetrics, opKey) {
	key := opKey{endpoint, op}
	m.mu.RLock()
	o := m.ops[key]
	m.mu.RUnlock()
	if o != nil {
		return o, key
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !success || m.size >= maxOps || len(op) > 64 {
		key.op = other
	}
	if o = m.ops[key]; o == nil {
		o = &opMetrics{took: m.took.WithLabelValues(endpointNames[endpoint], key.op)}
		m.ops[key] = o
		if key.op != other {
			m.size++
		}
	}
	return o, key
}

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4})
}
