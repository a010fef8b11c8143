	.file	1 "/somewhere" "<gathernest kernel>"
	.file	2 "/somewhere" "other.py"
_ZN17gathernest_kernel9copy_tileB2v5B72c8tJTIeFIjxB2IKSgI4CrvQAAxxx:
.Lfunc_begin0:
	.loc	1 76 0
	.cfi_startproc
	pushq	%rbx
.LBB0_1:                                # %loop
	.loc	1 82 1
	movq	(%r9,%rbx,8), %rbx               # comment
	.loc	1 0 1
	shlq	$8, %rbx
	movq	8(%rsp), %rcx
	movabsq	$tile._ZN17gathernest_kernel9copy_tileB2v5xx, %rsi
	.loc	2 90 1
	vmovups	%ymm0, 32(%r11,%rdx)
	jne	.LBB0_1
kinds_of_instructions:
	.loc	1 2 1
	vpgatherqd	%ymm3, (%rax,%ymm1,4), %xmm2
	vpinsrd	$1, (%rax,%rbx,4), %xmm0, %xmm0
	addq	(%rax), %rbx
	addq	%rbx, (%rax)
	cmpq	%rbx, (%rax)
	vmovntps	%ymm0, (%rdx)
	prefetcht0	64(%rcx,%r15)
	leaq	256(%r10), %r14
	cmovlq	%rcx, %r14
	movq	%rcx, %r14
	callq	*(%rax)
	retq
loop_in_a_loop:
.LBB1_1:
	.loc	1 2 1
	xorl	%eax, %eax
.LBB1_2:
	movq	(%rdi), %rbx
	jne	.LBB1_2
	incq	%rcx
	jne	.LBB1_1
	retq
jump_back_to_a_shared_end_is_no_loop:
	.loc	1 2 1
	jne	.LBB2_2
.LBB2_1:
	movq	(%rdi), %rbx
	retq
.LBB2_2:
	movq	(%rsi), %rbx
	jmp	.LBB2_1
blocks_of_another_place_stand_between_those_of_a_loop:
.LBB3_1:
	.loc	1 2 1
	movq	(%rdi), %rbx
	je	.LBB3_3
	jmp	.LBB3_4
.LBB3_3:
	retq
.LBB3_4:
	incq	%rcx
	jne	.LBB3_1
	retq
loop_without_memory:
.LBB4_1:
	.loc	1 2 1
	decq	%rcx
	jne	.LBB4_1
loop_of_the_next_function:
.LBB5_1:
	.loc	1 2 1
	prefetcht0	(%rdi)
	movq	%rax, (%rdi)
	jne	.LBB5_1
users_of_a_result_give_its_line:
	.loc	1 0 1
	shlq	$8, %rbx
	.loc	1 7 1
	movq	(%rax,%rbx), %rcx
	.loc	1 9 1
	vmovups	%ymm0, 32(%rax,%rbx)
	.loc	1 11 1
	movq	(%rdx), %rbx
	.loc	1 12 1
	addq	%rbx, %rcx
	.loc	1 13 1
	retq
part_of_a_register_is_the_register:
	.loc	1 0 1
	movzbl	(%rdi), %eax
	vmovd	(%rdi), %xmm1
	movl	(%rdi), %r9d
	.loc	1 4 1
	addq	%rax, %rcx
	.loc	1 5 1
	vmovups	%ymm1, (%rdx)
	.loc	1 6 1
	addq	%r9, %rcx
comparison_serves_the_next_that_asks_for_the_flags:
	.loc	1 0 1
	cmpq	%rax, %rbx
	.loc	1 3 1
	movq	%rax, %rcx
	.loc	1 4 1
	cmovlq	%rbx, %rcx
	.loc	1 5 1
	testq	%rax, %rax
chain_has_the_line_of_its_end_and_a_loop_goes_round:
	.loc	1 0 1
.LBB6_1:
	.loc	1 6 1
	movq	(%rdi,%rax), %rbx
	.loc	1 0 1
	leaq	8(%rax), %rdx
	movq	%rdx, %rax
	jne	.LBB6_1
	retq
what_other_ways_read_counts_and_what_is_overwritten_does_not:
	.loc	1 0 1
	movq	(%rdi), %rax
	.loc	1 2 1
	je	.LBB7_2
	.loc	1 3 1
	movq	%rax, (%rsi)
	.loc	1 4 1
	retq
.LBB7_2:
	.loc	1 5 1
	movq	(%rdx), %rax
	.loc	1 6 1
	movq	%rax, (%rcx)
next_iteration_reads_it:
	.loc	1 0 1
.LBB8_1:
	leaq	(%rax,%rax), %rdx
	.loc	1 6 1
	movq	(%rdx), %rbx
	.loc	1 0 1
	addq	$8, %rax
	jne	.LBB8_1
other_function_does_not_count:
	.loc	1 0 1
	movq	(%rdi), %rax
the_other_function:
	.loc	1 3 1
	addq	%rax, %rcx
