package stamp

import "encoding/binary"

// elf returns a static program for linux/amd64. It writes its record, allocates and touches that many bytes of memory
// and writes the second record (unless memory is 0), and then waits for a signal to end it. With last it waits for
// SIGTERM, writes when that came, and ends.
//
//	        sub   rsp, 64
//	        CLOCK_GETTIME(CLOCK_BOOTTIME, rsp)
//	        mov   eax, 39           ; getpid
//	        syscall
//	        mov   [rsp+16], rax
//	        WRITE(1, rsp, 24)
//	; with memory:
//	        mov   eax, 9            ; mmap
//	        xor   edi, edi
//	        mov   rsi, MEMORY
//	        mov   edx, 3            ; PROT_READ|PROT_WRITE
//	        mov   r10d, 0x8022      ; MAP_PRIVATE|MAP_ANONYMOUS|MAP_POPULATE
//	        mov   r8, -1
//	        xor   r9d, r9d
//	        syscall
//	        test  rax, rax          ; an error is negative
//	        js    fail
//	        bts   qword [rsp+16], 63
//	        CLOCK_GETTIME(CLOCK_BOOTTIME, rsp)
//	        WRITE(1, rsp, 24)
//	wait:   mov   eax, 34           ; pause
//	        syscall
//	        jmp   wait
//	fail:   mov   eax, 60           ; exit
//	        mov   edi, 1
//	        syscall
//
// ; with last, instead of wait:
//
//	        mov   qword [rsp+32], 1<<14 ; SIGTERM
//	        RT_SIGPROCMASK(SIG_BLOCK, rsp+32, 0, 8)
//	wait:   RT_SIGTIMEDWAIT(rsp+32, 0, 0, 8)
//	        cmp   eax, 15
//	        jne   wait
//	        bts   qword [rsp+16], 62
//	        CLOCK_GETTIME(CLOCK_BOOTTIME, rsp)
//	        WRITE(1, rsp, 24)
//	        mov   eax, 60           ; exit
//	        xor   edi, edi
//	        syscall
func elf(memory uint64, last bool) []byte {
	const origin = 0x400000

	gettime := []byte{
		0xb8, 228, 0, 0, 0, //         mov eax, 228: clock_gettime
		0xbf, 7, 0, 0, 0, //           mov edi, 7: CLOCK_BOOTTIME
		0x48, 0x89, 0xe6, //           mov rsi, rsp
		0x0f, 0x05, //                 syscall
	}
	write := []byte{
		0xb8, 1, 0, 0, 0, //           mov eax, 1: write
		0xbf, 1, 0, 0, 0, //           mov edi, 1
		0x48, 0x89, 0xe6, //           mov rsi, rsp
		0xba, Size, 0, 0, 0, //        mov edx, 24
		0x0f, 0x05, //                 syscall
	}
	wait := []byte{
		0xb8, 34, 0, 0, 0, //          mov eax, 34: pause
		0x0f, 0x05, //                 syscall
		0xeb, 0xf7, //                 jmp -9
	}
	if last {
		wait = []byte{
			0x48, 0xc7, 0x44, 0x24, 32, 0, 0x40, 0, 0, // mov qword [rsp+32], 1<<14
			0xb8, 14, 0, 0, 0, //      mov eax, 14: rt_sigprocmask
			0x31, 0xff, //             xor edi, edi: SIG_BLOCK
			0x48, 0x8d, 0x74, 0x24, 32, // lea rsi, [rsp+32]
			0x31, 0xd2, //             xor edx, edx
			0x41, 0xba, 8, 0, 0, 0, // mov r10d, 8
			0x0f, 0x05, //             syscall
			0xb8, 128, 0, 0, 0, //     mov eax, 128: rt_sigtimedwait
			0x48, 0x8d, 0x7c, 0x24, 32, // lea rdi, [rsp+32]
			0x31, 0xf6, //             xor esi, esi
			0x31, 0xd2, //             xor edx, edx
			0x41, 0xba, 8, 0, 0, 0, // mov r10d, 8
			0x0f, 0x05, //             syscall
			0x83, 0xf8, 15, //         cmp eax, 15
			0x75, 0xe5, //             jne -27
			0x48, 0x0f, 0xba, 0x6c, 0x24, 16, 62, // bts qword [rsp+16], 62
		}
		wait = append(append(wait, gettime...), write...)
		wait = append(wait,
			0xb8, 60, 0, 0, 0, //      mov eax, 60: exit
			0x31, 0xff, //             xor edi, edi
			0x0f, 0x05) //             syscall
	}
	code := []byte{0x48, 0x83, 0xec, 64} // sub rsp, 64
	code = append(code, gettime...)
	code = append(code,
		0xb8, 39, 0, 0, 0, //          mov eax, 39: getpid
		0x0f, 0x05, //                 syscall
		0x48, 0x89, 0x44, 0x24, 16, // mov [rsp+16], rax
	)
	code = append(code, write...)
	if memory > 0 {
		code = append(code,
			0xb8, 9, 0, 0, 0, //       mov eax, 9: mmap
			0x31, 0xff, //             xor edi, edi
			0x48, 0xbe) //             mov rsi, MEMORY
		code = binary.LittleEndian.AppendUint64(code, memory)
		rest := []byte{0x48, 0x0f, 0xba, 0x6c, 0x24, 16, 63} // bts qword [rsp+16], 63
		rest = append(rest, gettime...)
		rest = append(rest, write...)
		rest = append(rest, wait...)
		code = append(code,
			0xba, 3, 0, 0, 0, //       mov edx, 3
			0x41, 0xba, 0x22, 0x80, 0, 0, // mov r10d, 0x8022
			0x49, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff, // mov r8, -1
			0x45, 0x31, 0xc9, //       xor r9d, r9d
			0x0f, 0x05, //             syscall
			0x48, 0x85, 0xc0, //       test rax, rax
			0x78, byte(len(rest))) //  js fail
		code = append(code, rest...)
		code = append(code,
			0xb8, 60, 0, 0, 0, //      mov eax, 60: exit
			0xbf, 1, 0, 0, 0, //       mov edi, 1
			0x0f, 0x05) //             syscall
	} else {
		code = append(code, wait...)
	}

	const headers = 64 + 56 // of the file, and of its one segment
	file := append([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, make([]byte, 9)...)
	le := binary.LittleEndian
	file = le.AppendUint16(file, 2)              // e_type: ET_EXEC
	file = le.AppendUint16(file, 62)             // e_machine: EM_X86_64
	file = le.AppendUint32(file, 1)              // e_version
	file = le.AppendUint64(file, origin+headers) // e_entry
	file = le.AppendUint64(file, 64)             // e_phoff
	file = le.AppendUint64(file, 0)              // e_shoff
	file = le.AppendUint32(file, 0)              // e_flags
	file = le.AppendUint16(file, 64)             // e_ehsize
	file = le.AppendUint16(file, 56)             // e_phentsize
	file = le.AppendUint16(file, 1)              // e_phnum
	file = le.AppendUint16(file, 0)              // e_shentsize
	file = le.AppendUint16(file, 0)              // e_shnum
	file = le.AppendUint16(file, 0)              // e_shstrndx

	size := uint64(headers + len(code))
	file = le.AppendUint32(file, 1)      // p_type: PT_LOAD
	file = le.AppendUint32(file, 5)      // p_flags: PF_R|PF_X
	file = le.AppendUint64(file, 0)      // p_offset
	file = le.AppendUint64(file, origin) // p_vaddr
	file = le.AppendUint64(file, origin) // p_paddr
	file = le.AppendUint64(file, size)   // p_filesz
	file = le.AppendUint64(file, size)   // p_memsz
	file = le.AppendUint64(file, 4096)   // p_align
	return append(file, code...)
}
