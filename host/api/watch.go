package api

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloister/shared/wire"

	"github.com/prometheus/client_golang/prometheus"
)

// An Outbox holds the counts of the outbox. Each stops at a bound that the store sets.
type Outbox struct {
	Sends, Webhooks Waiting // Sends: transactions, mail and text messages; Webhooks: events
	Dead            int     // dead letters: events that are not tried again until an operator resends them
}

// Waiting counts the unfinished sends of a lane. OldestDue is zero if Count is.
type Waiting struct {
	Count     int
	OldestDue time.Time
}

// stateAway is the state label of an enclave that does not answer.
const stateAway = "away"

// watch registers the metrics that are computed at scrape time.
func (m *Metrics) watch(a *API) { m.registry.MustRegister(&collector{a}) }

// A collector is a prometheus.Collector of link, enclaves, store, logs and certificates.
type collector struct{ api *API }

var (
	alarmsDesc      = prometheus.NewDesc("cloister_enclave_alarms_total", "Misbehaviour of this host that the enclave has refused, since its boot.", []string{"enclave", "alarm"}, nil)
	counterDesc     = prometheus.NewDesc("cloister_enclave_counter", "Other counters and levels of the enclave, by its names.", []string{"enclave", "counter"}, nil)
	upDesc          = prometheus.NewDesc("cloister_enclave_up", "1 when the enclave answers.", []string{"enclave"}, nil)
	stateDesc       = prometheus.NewDesc("cloister_enclave_state", "1 for the state that the enclave is in, by its own word; \"away\" when it does not answer.", []string{"enclave", "state"}, nil)
	infoDesc        = prometheus.NewDesc("cloister_enclave_info", "1, with the SHA-256 of the enclave's program and, once it serves, of the deployment's genesis record.", []string{"enclave", "application", "deployment"}, nil)
	bootDesc        = prometheus.NewDesc("cloister_enclave_boot_number", "How many enclaves have taken the store, this one included; while it serves.", []string{"enclave"}, nil)
	servingDesc     = prometheus.NewDesc("cloister_enclave_serving", "1 when the enclave says that it serves.", []string{"enclave"}, nil)
	logStateDesc    = prometheus.NewDesc("cloister_enclave_log_state", "1 for the state of a range's log, by the word of the enclave that owns the range: whether its witnesses let it serve.", []string{"enclave", "range", "state"}, nil)
	sharesDesc      = prometheus.NewDesc("cloister_enclave_shares", "While the enclave waits for operators: shares that it takes (threshold), that there are (operators), that were given (given).", []string{"enclave", "count"}, nil)
	ageDesc         = prometheus.NewDesc("cloister_enclave_attestation_age_seconds", "Age of the enclave's attestation document.", []string{"enclave"}, nil)
	ageLimitDesc    = prometheus.NewDesc("cloister_enclave_attestation_age_limit_seconds", "Age from which the host is not ready, if there is one.", nil, nil)
	connectedDesc   = prometheus.NewDesc("cloister_link_connections", "Connections to the enclave that stand.", nil, nil)
	wantedDesc      = prometheus.NewDesc("cloister_link_connections_wanted", "Connections to the enclave that there should be.", nil, nil)
	inFlightDesc    = prometheus.NewDesc("cloister_link_calls_in_flight", "Calls without reply.", nil, nil)
	lateDesc        = prometheus.NewDesc("cloister_link_late_replies_total", "Replies whose caller had left.", nil, nil)
	dialsDesc       = prometheus.NewDesc("cloister_link_dials_total", "Connections made to the enclave.", nil, nil)
	breachesDesc    = prometheus.NewDesc("cloister_link_breaches_total", "Connections cut because the enclave broke the protocol.", nil, nil)
	wrongDesc       = prometheus.NewDesc("cloister_link_wrong_replies_total", "Replies that did not belong to their request.", nil, nil)
	storeDesc       = prometheus.NewDesc("cloister_store_up", "1 when the store answers and takes what the enclave decides.", nil, nil)
	waitingDesc     = prometheus.NewDesc("cloister_outbox_waiting", "What has not ended: sends (transactions, mail, text messages) and webhooks. Counted up to 10000.", []string{"lane"}, nil)
	overdueDesc     = prometheus.NewDesc("cloister_outbox_overdue_seconds", "How long the one that is due first has been due; 0 when none is.", []string{"lane"}, nil)
	deadDesc        = prometheus.NewDesc("cloister_outbox_dead_letters", "Webhooks that nobody will deliver unless told to. Counted up to 10000.", nil, nil)
	logSizeDesc     = prometheus.NewDesc("cloister_log_size", "Leaves in the newest checkpoint of a range that this host was to have cosigned.", []string{"range"}, nil)
	cosignedDesc    = prometheus.NewDesc("cloister_log_cosigned_size", "Leaves in the newest one that a quorum has cosigned.", []string{"range"}, nil)
	witnessSizeDesc = prometheus.NewDesc("cloister_witness_size", "Leaves that a witness has cosigned, by its own account.", []string{"range", "witness"}, nil)
	signedDesc      = prometheus.NewDesc("cloister_witness_signed_timestamp_seconds", "When a witness has cosigned last, as Unix time.", []string{"range", "witness"}, nil)
	owingDesc       = prometheus.NewDesc("cloister_witness_owing_seconds", "How long a witness has been asked for a cosignature and has given none; 0 when it has cosigned the newest checkpoint.", []string{"range", "witness"}, nil)
	refusesDesc     = prometheus.NewDesc("cloister_witness_refuses", "1 while a witness says that it has seen other leaves than those that it was asked to cosign.", []string{"range", "witness"}, nil)
	witnessTookDesc = prometheus.NewDesc("cloister_witness_seconds", "Time that a witness's last cosignature took.", []string{"range", "witness"}, nil)
	certificateDesc = prometheus.NewDesc("cloister_certificate_expiry_timestamp_seconds", "Until when the certificate for a name is good, as Unix time.", []string{"name"}, nil)
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		alarmsDesc, counterDesc, upDesc, stateDesc, infoDesc, bootDesc, servingDesc, logStateDesc, sharesDesc, ageDesc, ageLimitDesc, connectedDesc, wantedDesc, inFlightDesc,
		lateDesc, dialsDesc, breachesDesc, wrongDesc, storeDesc, waitingDesc, overdueDesc, deadDesc, certificateDesc,
		logSizeDesc, cosignedDesc, witnessSizeDesc, signedDesc, owingDesc, refusesDesc, witnessTookDesc,
	} {
		ch <- d
	}
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func counter(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func gaugeOf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Collect implements prometheus.Collector. It asks store and enclaves in parallel, so that one that hangs does not hide the others.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.api.options.Enclave.Stats()
	gauge(ch, connectedDesc, float64(s.Connected))
	gauge(ch, wantedDesc, float64(s.Wanted))
	gauge(ch, inFlightDesc, float64(s.InFlight))
	counter(ch, lateDesc, float64(s.Late))
	counter(ch, dialsDesc, float64(s.Dials))
	counter(ch, breachesDesc, float64(s.Breaches))
	counter(ch, wrongDesc, float64(s.Wrong))
	if c.api.options.Certificates != nil {
		for name, until := range c.api.options.Certificates() {
			gauge(ch, certificateDesc, float64(until.Unix()), name)
		}
	}
	if c.api.options.Logs != nil {
		c.logs(ch)
	}
	if limit := c.api.options.AttestationAge; limit > 0 {
		gauge(ch, ageLimitDesc, limit.Seconds())
	}
	var all sync.WaitGroup
	for _, k := range c.api.askers {
		all.Go(func() { k.collect(ch) })
	}
	all.Go(func() { c.store(ch) })
	all.Wait()
}

// logs collects the metrics of the logs and their witnesses.
func (c *collector) logs(ch chan<- prometheus.Metric) {
	for _, l := range c.api.options.Logs() {
		in := strconv.Itoa(int(l.Range))
		gauge(ch, logSizeDesc, float64(l.Size), in)
		gauge(ch, cosignedDesc, float64(l.Cosigned), in)
		for _, w := range l.Witnesses {
			gauge(ch, witnessSizeDesc, float64(w.Size), in, w.Witness)
			gauge(ch, owingDesc, w.Owing.Seconds(), in, w.Witness)
			gauge(ch, refusesDesc, gaugeOf(w.Other), in, w.Witness)
			if !w.Signed.IsZero() {
				gauge(ch, signedDesc, float64(w.Signed.UnixMilli())/1e3, in, w.Witness)
				gauge(ch, witnessTookDesc, w.Took.Seconds(), in, w.Witness)
			}
		}
	}
}

// store collects the metrics of the store and its outbox. A store that does not answer has no outbox.
func (c *collector) store(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), statusWait)
	defer cancel()
	err := c.api.pingStore(ctx)
	gauge(ch, storeDesc, gaugeOf(err == nil))
	if err != nil || c.api.options.Outbox == nil {
		return
	}
	outbox, err := c.api.options.Outbox(ctx)
	if err != nil {
		c.api.outages.LogFailure(slog.LevelWarn, "outbox", "outbox not counted", "error", err)
		return
	}
	c.api.outages.LogSuccess("outbox", "outbox counted again")
	now := c.api.options.Now()
	for lane, w := range map[string]Waiting{"sends": outbox.Sends, "webhooks": outbox.Webhooks} {
		overdue := 0.0
		if w.Count > 0 {
			overdue = max(0, now.Sub(w.OldestDue).Seconds())
		}
		gauge(ch, waitingDesc, float64(w.Count), lane)
		gauge(ch, overdueDesc, overdue, lane)
	}
	gauge(ch, deadDesc, float64(outbox.Dead))
}

// collect collects the metrics of one enclave. An enclave that does not answer has no counters and
// counts as not serving.
func (k *statusCache) collect(ch chan<- prometheus.Metric) {
	e, err := k.ask(context.Background())
	gauge(ch, upDesc, gaugeOf(err == nil), k.name)
	gauge(ch, servingDesc, gaugeOf(err == nil && e.State == "serving"), k.name)
	if err != nil {
		gauge(ch, stateDesc, 1, k.name, stateAway)
		return
	}
	if isID(e.State) {
		gauge(ch, stateDesc, 1, k.name, e.State)
	}
	if isID(e.Application) && (e.Deployment == "" || isID(e.Deployment)) {
		gauge(ch, infoDesc, 1, k.name, e.Application, e.Deployment)
	}
	if e.BootNumber != nil {
		gauge(ch, bootDesc, float64(*e.BootNumber), k.name)
	}
	for _, l := range e.logs {
		if state := string(l.State); isID(state) && l.Range < wire.MaxRanges {
			gauge(ch, logStateDesc, 1, k.name, strconv.Itoa(int(l.Range)), state)
		}
	}
	if e.Shares != nil {
		gauge(ch, sharesDesc, float64(e.Shares.Threshold), k.name, "threshold")
		gauge(ch, sharesDesc, float64(e.Shares.Operators), k.name, "operators")
		gauge(ch, sharesDesc, float64(len(e.Shares.Have)), k.name, "given")
	}
	if e.AttestationAgeMs != nil {
		gauge(ch, ageDesc, float64(*e.AttestationAgeMs)/1e3, k.name)
	}
	n := 0
	for name, v := range e.Counters {
		if n++; n > maxCounters || !isID(name) {
			continue
		}
		if alarm, ok := strings.CutPrefix(name, "alarm_"); ok {
			counter(ch, alarmsDesc, v, k.name, alarm)
		} else {
			gauge(ch, counterDesc, v, k.name, name)
		}
	}
}
