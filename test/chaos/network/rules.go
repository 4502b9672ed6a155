//go:build linux

package network

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// rules are what a bridge drops of what it forwards: one chain of nftables, in the
// namespace of the bridge. It is changed in one transaction, so for each packet
// either all links are as they were or all are as they will be.
//
// It uses netlink directly: the program nft takes some ten milliseconds to start, in which the
// links would be half old and half new.
type rules struct {
	link *netlink
}

const (
	chaosTable = "chaos"
	chaosChain = "links"
)

// Of <linux/netfilter_bridge.h>, <linux/netfilter/nf_tables.h>, <linux/netfilter.h>
// and <linux/if_ether.h>.
const (
	bridgeForward  = 2 // NF_BR_FORWARD
	verdictDrop    = 0 // NF_DROP
	verdictAccept  = 1 // NF_ACCEPT
	compareEqual   = 0 // NFT_CMP_EQ
	compareLess    = 2 // NFT_CMP_LT
	networkHeader  = 1 // NFT_PAYLOAD_NETWORK_HEADER
	toNetworkOrder = 1 // NFT_BYTEORDER_HTON
)

// newRules makes the chain, empty. It must be called in the bridge's namespace.
func newRules() (*rules, error) {
	l, err := openNetlink(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, err
	}
	r := &rules{link: l}
	if err := r.transact(func(p *packet) {
		nft(p, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, func() { p.text(unix.NFTA_TABLE_NAME, chaosTable) })
		nft(p, unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, func() {
			p.text(unix.NFTA_CHAIN_TABLE, chaosTable)
			p.text(unix.NFTA_CHAIN_NAME, chaosChain)
			p.text(unix.NFTA_CHAIN_TYPE, "filter")
			p.number(unix.NFTA_CHAIN_POLICY, verdictAccept)
			p.nest(unix.NFTA_CHAIN_HOOK, func() {
				p.number(unix.NFTA_HOOK_HOOKNUM, bridgeForward)
				p.number(unix.NFTA_HOOK_PRIORITY, 0)
			})
		})
	}); err != nil {
		_ = l.close()
		return nil, fmt.Errorf("nftables: a chain of a bridge: %w", err)
	}
	return r, nil
}

func (r *rules) close() error {
	if r == nil {
		return nil
	}
	return r.link.close()
}

// set replaces all rules.
func (r *rules) set(links Links, address func(node int) netip.Addr) error {
	err := r.transact(func(p *packet) {
		nft(p, unix.NFT_MSG_DELRULE, 0, func() {
			p.text(unix.NFTA_RULE_TABLE, chaosTable)
			p.text(unix.NFTA_RULE_CHAIN, chaosChain)
		})
		for w, k := range links {
			if !k.Cut && k.Loss <= 0 {
				continue
			}
			nft(p, unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, func() {
				p.text(unix.NFTA_RULE_TABLE, chaosTable)
				p.text(unix.NFTA_RULE_CHAIN, chaosChain)
				p.nest(unix.NFTA_RULE_EXPRESSIONS, func() {
					travels(p, address(w.From), address(w.To))
					if !k.Cut {
						chance(p, k.Loss)
					}
					drop(p)
				})
			})
		}
	})
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}

// transact has the kernel carry out all of what build appends, or nothing.
func (r *rules) transact(build func(*packet)) error {
	var awaited uint32
	return r.link.send(func(p *packet) {
		bound := func(kind uint16) {
			p.message(kind, 0, func() { p.bytes = append(p.bytes, unix.AF_UNSPEC, 0, 0, unix.NFNL_SUBSYS_NFTABLES) })
		}
		bound(unix.NFNL_MSG_BATCH_BEGIN)
		build(p)
		awaited = p.acknowledge()
		bound(unix.NFNL_MSG_BATCH_END)
	}, func(kind uint16, seq uint32, _ []byte) bool { return kind == unix.NLMSG_ERROR && seq == awaited })
}

// nft appends a message about bridges.
func nft(p *packet, kind, flags uint16, fill func()) {
	p.message(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags, func() {
		p.bytes = append(p.bytes, unix.NFPROTO_BRIDGE, 0, 0, 0)
		fill()
	})
}

// expression appends one of the expressions of a rule.
func expression(p *packet, name string, fill func()) {
	p.nest(unix.NFTA_LIST_ELEM, func() {
		p.text(unix.NFTA_EXPR_NAME, name)
		p.nest(unix.NFTA_EXPR_DATA, fill)
	})
}

// travels adds a match of packets from one address to another.
func travels(p *packet, from, to netip.Addr) {
	expression(p, "meta", func() {
		p.number(unix.NFTA_META_DREG, unix.NFT_REG_1)
		p.number(unix.NFTA_META_KEY, unix.NFT_META_PROTOCOL)
	})
	compare(p, compareEqual, binary.BigEndian.AppendUint16(nil, unix.ETH_P_IP))
	expression(p, "payload", func() { // source and destination stand side by side
		p.number(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1)
		p.number(unix.NFTA_PAYLOAD_BASE, networkHeader)
		p.number(unix.NFTA_PAYLOAD_OFFSET, 12)
		p.number(unix.NFTA_PAYLOAD_LEN, 8)
	})
	compare(p, compareEqual, append(from.AsSlice(), to.AsSlice()...))
}

// chance adds a match of that percentage of packets.
func chance(p *packet, percent int) {
	expression(p, "numgen", func() {
		p.number(unix.NFTA_NG_DREG, unix.NFT_REG_1)
		p.number(unix.NFTA_NG_MODULUS, 100)
		p.number(unix.NFTA_NG_TYPE, unix.NFT_NG_RANDOM)
	})
	expression(p, "byteorder", func() { // comparisons are of bytes, the first one first
		p.number(unix.NFTA_BYTEORDER_SREG, unix.NFT_REG_1)
		p.number(unix.NFTA_BYTEORDER_DREG, unix.NFT_REG_1)
		p.number(unix.NFTA_BYTEORDER_OP, toNetworkOrder)
		p.number(unix.NFTA_BYTEORDER_LEN, 4)
		p.number(unix.NFTA_BYTEORDER_SIZE, 4)
	})
	compare(p, compareLess, binary.BigEndian.AppendUint32(nil, uint32(percent)))
}

func compare(p *packet, how uint32, value []byte) {
	expression(p, "cmp", func() {
		p.number(unix.NFTA_CMP_SREG, unix.NFT_REG_1)
		p.number(unix.NFTA_CMP_OP, how)
		p.nest(unix.NFTA_CMP_DATA, func() { p.data(unix.NFTA_DATA_VALUE, value...) })
	})
}

func drop(p *packet) {
	expression(p, "immediate", func() {
		p.number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
		p.nest(unix.NFTA_IMMEDIATE_DATA, func() {
			p.nest(unix.NFTA_DATA_VERDICT, func() { p.number(unix.NFTA_VERDICT_CODE, verdictDrop) })
		})
	})
}
