// RUN: gathernest-opt %s -p "parallelize-loops{loops=owners}" --verify-diagnostics

// The mask lets twice as many positions through as an owner has.
// expected-error@unknown {{cannot prove that iterations of owners are independent: no dimension is subscripted in every store}}
func.func @gather(%out: memref<8xf32>, %positions: memref<9xindex>, %x: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %part = arith.constant 2 : index
  %twice = arith.constant 4 : index
  %size = arith.constant 8 : index
  %count = arith.constant 9 : index
  gather.loop owners(%first) = %c0 to %size step %part {
    gather.loop ordered indices(%i) = %c0 to %count step %c1 {
      %position = memref.load %positions[%i] : memref<9xindex>
      %offset = arith.subi %position, %first : index
      %owned = arith.cmpi ult, %offset, %twice : index
      gather.accumulate %x, %out[%position] if %owned : f32, memref<8xf32>
    }
  }
  func.return
}
