// RUN: gathernest-opt %s -p "vectorize-inner{lanes=4}"

// A loop has a known number of iterations only where its end is counted from its start.
// CHECK: arith.remui
// CHECK: gather.loop inner_rest
func.func @gather(%grad: memref<?xf32>, %out: memref<?xf32>, %n: index, %first: index) {
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %end = arith.addi %n, %c8 : index
  gather.loop inner(%j) = %first to %end step %c1 {
    %x = memref.load %grad[%j] : memref<?xf32>
    gather.accumulate %x, %out[%j] : f32, memref<?xf32>
  }
  func.return
}
