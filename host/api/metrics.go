package api

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"cloister/shared/wire"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxOps bounds the names of operations that become labels; the rest, and every
// name that has never had success, count as "other".
const maxOps = 512

const other = "other"

var doorNames = [...]string{wire.DoorSubmit: "submit", wire.DoorQuery: "query", wire.DoorProxy: "proxy", wire.DoorBoot: "boot"}

// phaseNames are the labels of Reply.Phases, in order.
var phaseNames = [...]string{"stamp", "decide", "execute", "store"}

var seconds = []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30}

// Metrics are all the host counts. It is a link.Observer.
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
	webhooks *prometheus.HistogramVec

	mu   sync.RWMutex
	ops  map[opKey]*opMetrics
	size int
}

type opKey struct {
	door wire.Door
	op   string
}

// opMetrics is the resolved part of one operation: looking labels up by name
// costs more than counting.
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
		webhooks: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cloister_webhook_seconds",
			Help: "Attempts to deliver a webhook, by what came of them: delivered, later, dead, gone.", Buckets: seconds}, []string{"result"}),
	}
	phases := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cloister_phase_seconds",
		Help: "Time a request spent in each phase, as the enclave says.", Buckets: seconds}, []string{"phase"})
	for i, name := range phaseNames {
		m.phases[i] = phases.WithLabelValues(name)
	}
	m.registry.MustRegister(m.requests, m.took, phases, m.entries, m.bytes, m.batches, m.store, m.failures, m.refused, m.webhooks)
	return m
}

// Batch counts a batch that the store answered.
func (m *Metrics) Batch(entries, bytes int, verdict wire.Verdict) {
	name := map[wire.Verdict]string{wire.VerdictStored: "stored", wire.VerdictConflict: "conflict", wire.VerdictSuperseded: "superseded"}[verdict]
	m.batches.WithLabelValues(name).Inc()
	m.entries.Observe(float64(entries))
	m.bytes.Add(float64(bytes))
}

// Stored counts one question to the store.
func (m *Metrics) Stored(question string, took time.Duration, failed bool) {
	m.store.WithLabelValues(question).Observe(took.Seconds())
	if failed {
		m.failures.WithLabelValues(question).Inc()
	}
}

// Webhook counts one attempt to deliver a webhook.
func (m *Metrics) Webhook(result string, took time.Duration) {
	m.webhooks.WithLabelValues(result).Observe(took.Seconds())
}

// called counts one request that reached the link.
func (m *Metrics) called(door wire.Door, op string, status int, took time.Duration, phases []uint32) {
	o, key := m.operation(door, op, status < 400)
	o.took.Observe(took.Seconds())
	counter, ok := o.statuses.Load(status)
	if !ok {
		counter, _ = o.statuses.LoadOrStore(status, m.requests.WithLabelValues(doorNames[key.door], key.op, statusText(status)))
	}
	counter.(prometheus.Counter).Inc()
	for i, us := range phases[:min(len(phases), len(m.phases))] {
		m.phases[i].Observe(float64(us) / 1e6)
	}
}

// statusText keeps the label to codes that HTTP knows.
func statusText(status int) string {
	if http.StatusText(status) == "" && status != statusClosed {
		return other
	}
	return string([]byte{byte('0' + status/100), byte('0' + status/10%10), byte('0' + status%10)})
}

func (m *Metrics) operation(door wire.Door, op string, success bool) (*opMetrics, opKey) {
	key := opKey{door, op}
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
		o = &opMetrics{took: m.took.WithLabelValues(doorNames[door], key.op)}
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

// watch registers what is read only when somebody asks.
func (m *Metrics) watch(a *API) { m.registry.MustRegister(&collector{a}) }

// A collector reads link and enclave at scrape time.
type collector struct{ a *API }

var (
	alarmsDesc    = prometheus.NewDesc("cloister_enclave_alarms_total", "Misbehaviour of this host that the enclave has refused, since its boot.", []string{"alarm"}, nil)
	counterDesc   = prometheus.NewDesc("cloister_enclave_counter", "Other counters and levels of the enclave, by its names.", []string{"counter"}, nil)
	servingDesc   = prometheus.NewDesc("cloister_enclave_serving", "1 when the enclave says that it serves.", nil, nil)
	ageDesc       = prometheus.NewDesc("cloister_enclave_attestation_age_seconds", "Age of the enclave's attestation document.", nil, nil)
	connectedDesc = prometheus.NewDesc("cloister_link_connections", "Connections to the enclave that stand.", nil, nil)
	inFlightDesc  = prometheus.NewDesc("cloister_link_calls_in_flight", "Calls without reply.", nil, nil)
	lateDesc      = prometheus.NewDesc("cloister_link_late_replies_total", "Replies whose caller had left.", nil, nil)
	dialsDesc     = prometheus.NewDesc("cloister_link_dials_total", "Connections made to the enclave.", nil, nil)
	breachesDesc  = prometheus.NewDesc("cloister_link_breaches_total", "Connections cut because the enclave broke the protocol.", nil, nil)
	wrongDesc     = prometheus.NewDesc("cloister_link_wrong_replies_total", "Replies that did not belong to their request.", nil, nil)
)

// Describe makes the collector one whose set of metrics is known.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{alarmsDesc, counterDesc, servingDesc, ageDesc, connectedDesc, inFlightDesc, lateDesc, dialsDesc, breachesDesc, wrongDesc} {
		ch <- d
	}
}

// Collect reads link and enclave. An enclave that does not answer has no
// counters, and serves not.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	s := c.a.o.Enclave.Stats()
	gauge(connectedDesc, float64(s.Connected))
	gauge(inFlightDesc, float64(s.InFlight))
	counter(lateDesc, float64(s.Late))
	counter(dialsDesc, float64(s.Dials))
	counter(breachesDesc, float64(s.Breaches))
	counter(wrongDesc, float64(s.Wrong))
	e, err := c.a.enclaveStatus(context.Background())
	if err != nil || e.State != "serving" {
		gauge(servingDesc, 0)
	} else {
		gauge(servingDesc, 1)
	}
	if err != nil {
		return
	}
	if e.AttestationAgeMs != nil {
		gauge(ageDesc, float64(*e.AttestationAgeMs)/1e3)
	}
	n := 0
	for name, v := range e.Counters {
		if n++; n > maxCounters || !isID(name) {
			continue
		}
		if alarm, ok := strings.CutPrefix(name, "alarm_"); ok {
			counter(alarmsDesc, v, alarm)
		} else {
			gauge(counterDesc, v, name)
		}
	}
}
